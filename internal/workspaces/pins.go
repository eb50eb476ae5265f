package workspaces

import (
	"context"

	"config-server/internal/farm"
)

// Pins knows which images are held to a digest.
type Pins interface {
	// Pinned looks for the pin of an image, named as farm.Image writes it; the second result is false if
	// there is none. It asks nobody most of the time.
	Pinned(ctx context.Context, image string) (farm.Pin, bool, error)
}

// pinImage looks whether the image that the user configuration names is held to a digest. A name that is
// none stays as it is: kubelet says what is wrong with it.
func (l *launch) pinImage(ctx context.Context) error {
	image, err := farm.ParseImage(l.config.Image)
	if err != nil || image.Digest != "" || image.Saved() {
		return nil
	}
	pin, found, err := l.Pins.Pinned(ctx, image.String())
	if err != nil {
		return l.buildFailed(farm.Internal, err)
	}
	if found {
		l.pin = &pin
	}
	return nil
}
