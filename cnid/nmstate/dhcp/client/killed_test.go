// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/client"
)

// folderVariable has the folder of a client that a test starts and kills.
const folderVariable = "ALIOTH_TEST_DHCP_FOLDER"

// TestMain runs such a client in the network namespace of the process.
func TestMain(m *testing.M) {
	if folder := os.Getenv(folderVariable); folder != "" {
		err := runUntilKilled(folder)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	// The tests mostly wait for timers of the protocols, not for processors.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runUntilKilled(folder string) error {
	manager, err := client.New(client.Options{Folder: folder})
	if err != nil {
		return err
	}
	if err := manager.Set([]dhcp.Config{four}); err != nil {
		return err
	}
	return manager.Run(context.Background())
}
