// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command write writes the OpenAPI document of the node IPAM API. Its arguments are the
// directory of package wire and the file.
package main

import (
	"fmt"
	"os"

	"github.com/alioth-net/alioth/cnid/nodeipam/openapi"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(source, target string) error {
	text, err := openapi.Document(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, text, 0o644)
}
