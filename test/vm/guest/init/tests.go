// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"slices"

	"github.com/alioth-net/alioth/test/vm/guest"
)

// environment is the environment of every test. Tests collect garbage seldom: the machine has
// memory to spare, and its processor is slow.
var environment = []string{
	"HOME=/root",
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"TMPDIR=/tmp",
	"GOGC=400",
}

// runTest runs one binary. It reports the binary's failure to the host. The returned error is an
// error of the report.
func runTest(host *host, test guest.Test, further []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), test.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, test.Binary, test.Args...)
	cmd.Dir, cmd.Env = test.Dir, slices.Concat(environment, further)
	out := output{host, test}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	ended := guest.Message{Package: test.Package, Ended: true}
	switch {
	case ctx.Err() != nil:
		ended.Failure = "took more than " + test.Limit.String()
	case err != nil:
		ended.Failure = err.Error()
	}
	return host.send(ended)
}
