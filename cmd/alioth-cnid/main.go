// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command alioth-cnid is the node daemon of Alioth. Without a subcommand it
// serves the pods of its node. install-cni prepares the node, and uninstall cleans it.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	// The second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	context.AfterFunc(ctx, stop)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}
