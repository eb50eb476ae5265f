package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"config-server/deploy/image/internal/bill"
	"config-server/deploy/image/internal/licences"
)

// swaggerModule embeds the built files of Swagger UI, which is another work under another licence.
const swaggerModule = "github.com/swaggo/files/v2"

// The module does not have Swagger UI's own licence file. The licence's text stands in the image all the same, as that
// of other components.
const swaggerNotice = `Swagger UI, https://github.com/swagger-api/swagger-ui
Copyright SmartBear Software Inc.
Under the Apache License, Version 2.0, whose text stands in this file.
`

var swaggerVersion = regexp.MustCompile(`PACKAGE_VERSION:"([0-9.]+)"`)

// swaggerUI is the component of the files in the module's folder.
func swaggerUI(folder string) (bill.Component, error) {
	script, err := os.ReadFile(filepath.Join(folder, "dist", "swagger-ui-bundle.js"))
	if err != nil {
		return bill.Component{}, fmt.Errorf("find the version of Swagger UI: %w", err)
	}
	version := swaggerVersion.FindSubmatch(script)
	if version == nil {
		return bill.Component{}, errors.New("find the version of Swagger UI: its script names none")
	}
	return bill.Component{
		Name: "swagger-ui-dist", Version: string(version[1]), PURL: "pkg:npm/swagger-ui-dist@" + string(version[1]),
		Licences: []string{"Apache-2.0"}, Texts: []licences.Text{{Path: "NOTICE", Content: []byte(swaggerNotice)}}, Linked: true,
	}, nil
}
