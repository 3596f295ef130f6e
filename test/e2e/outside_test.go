// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"os/exec"
	"testing"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// serveOn runs the test tool's server on a host of the underlay for the time of
// a test and returns the host's address.
func (e *env) serveOn(t *testing.T, host *cluster.Host, name string, number byte) netip.Addr {
	t.Helper()
	address, _ := e.onUnderlay(number)
	e.serveAt(t, host, name, address)
	return address
}

// serveAt runs the server on a host and waits until it answers at the host's
// address.
func (e *env) serveAt(t *testing.T, host *cluster.Host, name string, address netip.Addr) {
	t.Helper()
	server := exec.Command("nsenter", "--net="+host.NetNS, e.Tool, "serve", "--name", name)
	if err := server.Start(); err != nil {
		t.Fatalf("start the outside server: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended by itself
		_ = server.Wait()
	})
	results, err := scene.ParseLines[report.Probe](e.onHost(t, host, "probe", "--timeout", answerTime.String(), scene.Target("http", address)))
	if err != nil || len(results) != 1 || !results[0].OK {
		t.Fatalf("the outside server does not answer: %+v, %v", results, err)
	}
}
