// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package freeport_test

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/alioth-net/alioth/test/freeport"
)

func TestChoose_ManyPorts_FreeAndOutsideKernelRange(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Choose(t.Context(), 50)
	if err != nil || len(ports) != 50 {
		t.Fatal(ports, err)
	}
	seen := map[uint16]bool{}
	for _, port := range ports {
		if seen[port] || port < 12000 || int(port) >= first && int(port) <= last {
			t.Errorf("port %d is low, one of the kernel's %d to %d, or was chosen before", port, first, last)
		}
		seen[port] = true
		for _, network := range []string{"tcp4", "tcp6"} {
			listener, err := net.Listen(network, fmt.Sprint(":", port)) // all ports at once
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
		}
	}
	if _, err := freeport.Choose(t.Context(), 1<<16); err == nil {
		t.Error("more ports than there are were chosen")
	}
}
