// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostWith is a host with one process, of the test's own network namespace if own is true.
func hostWith(t *testing.T, program, command string, own bool) Root {
	t.Helper()
	root := t.TempDir()
	process := filepath.Join(root, "proc/17")
	if err := os.MkdirAll(filepath.Join(process, "ns"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"comm": program + "\n", "cmdline": strings.ReplaceAll(command, " ", "\x00")}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(process, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := "/proc/self/ns/net"
	if !own {
		to = "/proc/self/ns/mnt"
	}
	if err := os.Symlink(to, filepath.Join(process, "ns/net")); err != nil {
		t.Fatal(err)
	}
	return Root(root)
}

func TestManagers_DHCPClientOnInterface_Found(t *testing.T) {
	space, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = space.Close() }()
	for _, c := range []struct {
		program, command string
		elsewhere        bool
		want             string
	}{
		{"dhclient", "/sbin/dhclient -4 -v -i -pf /run/dhclient.eth1.pid -lf /var/lib/dhcp/dhclient.eth1.leases eth1", false, "dhclient (process 17)"},
		{"dhclient", "/sbin/dhclient -4 -v -pf /run/dhclient.eth1.pid eth10", false, ""},
		{"dhclient", "dhclient", false, "dhclient (process 17)"},
		{"dhcpcd", "dhcpcd: [master] [ip4] [ip6]", false, "dhcpcd (process 17)"},
		{"dhcpcd", "dhcpcd: eth1 [ip4]", false, "dhcpcd (process 17)"},
		{"dhcpcd", "dhcpcd: eth2 [ip4]", false, ""},
		{"udhcpc", "udhcpc -b -ieth1", false, "udhcpc (process 17)"},
		{"udhcpc", "udhcpc -i eth1 -s /etc/udhcpc.sh", false, "udhcpc (process 17)"},
		{"udhcpc", "udhcpc -i eth1", true, ""},
		{"editor", "editor dhclient eth1", false, ""},
	} {
		got, err := hostWith(t, c.program, c.command, !c.elsewhere).Client("eth1", space.Fd())
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.command, got, err, c.want)
		}
	}
}
