// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command alioth-operator runs the control plane of Alioth.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1)
	}
}
