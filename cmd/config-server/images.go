package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

func imagesCommand(in invocation) *cobra.Command {
	images := groupCommand("images", "Look at images, and hold them to a digest")
	r := remoteFlags(in, images)
	images.AddCommand(listing[client.Images]{
		ask:   func(ctx context.Context, c *client.Client) (client.Images, error) { return c.Images(ctx) },
		print: printImages,
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List the images that are pinned or that workspaces run",
		Long: `List the images that are pinned or that workspaces run, by name. RUNNING are the workspaces of the image, OTHERS those of
them that were made with another digest, or with the name alone while it is pinned. With -o json the answer of
GET /images.` + remoteLong,
		Example: "  config-server images list\n  config-server images list -o json | jq -r '.images[] | select(.digest == null).image'",
	}, r), changePin(r, "pin", "Hold an image to what its name stands for now",
		`Ask the image's registry for the digest that its name stands for now, and have new workspaces of the image run that.
With -o json the answer of POST /images/pin.`, (*client.Client).Pin),
		changePin(r, "unpin", "Let new workspaces run an image by its name again",
			`Let new workspaces run an image by its name again. With -o json the answer of DELETE /images/pin.`, (*client.Client).Unpin))
	return images
}

func printImages(out io.Writer, answer client.Images) error {
	table := newLines("IMAGE", "DIGEST", "PINNED", "RUNNING", "OTHERS")
	table.right("OTHERS")
	for _, one := range answer.Images {
		digest, others := none, none
		if one.Digest != nil {
			digest = *one.Digest
			n := 0
			for _, run := range one.Workspaces {
				if run.Digest == nil || *run.Digest != *one.Digest {
					n++
				}
			}
			others = strconv.Itoa(n)
		}
		table.add(one.Image, digest, orTime(one.PinnedAt), len(one.Workspaces), others)
	}
	return table.print(out)
}

// changePin is a subcommand that makes a pin or takes one back.
func changePin(r *remote, verb, short, long string, change func(*client.Client, context.Context, string) (client.PinChanged, error)) *cobra.Command {
	return question[client.PinChanged]{
		ask: func(ctx context.Context, c *client.Client, args []string) (client.PinChanged, error) {
			return change(c, ctx, args[0])
		},
		print: printPinChanged,
	}.on(&cobra.Command{
		Use: verb + " IMAGE", Short: short, Long: long + remoteLong, Args: oneImage,
		Example:           "  config-server images " + verb + " dguailab/decs:1.0",
		ValidArgsFunction: r.complete(imageNames),
	}, r)
}

func printPinChanged(out io.Writer, changed client.PinChanged) error {
	if _, err := fmt.Fprintf(out, "%s %s: %s\n", printable(changed.Image), changed.Status, printable(changed.Digest)); err != nil {
		return err
	}
	return printWarnings(out, changed.Warnings)
}

func oneImage(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it needs the name of one image")
	}
	return nil
}
