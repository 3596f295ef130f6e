// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"os"
	"path/filepath"
	"testing"
)

func TestManagers_OwnFiles_ManagerIdentified(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"sys/class/net/eth0/ifindex":   "2\n",
		"sys/class/net/eth1/ifindex":   "3\n",
		"sys/class/net/eth2/ifindex":   "4\n",
		"sys/class/net/eth3/ifindex":   "5\n",
		"sys/class/net/eth4/ifindex":   "6\n",
		"run/NetworkManager/devices/2": "[device]\nmanaged=true\nconnection-uuid=1\n",
		"run/NetworkManager/devices/3": "[device]\nmanaged=unmanaged\n",
		"run/systemd/netif/links/4":    "# This is private data. Do not parse.\nADMIN_STATE=configured\n",
		"run/systemd/netif/links/5":    "ADMIN_STATE=unmanaged\n",
		"run/systemd/netif/links/3":    "OPER_STATE=routable\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"eth0": "NetworkManager", "eth1": "", "eth2": "systemd-networkd", "eth3": "", "eth4": "", "missing": "",
	} {
		if got, err := Root(dir).Of(name); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}
