// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netnstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sysctls is the folder of the kernel's network settings, proc(5).
const sysctls = "/proc/sys/net"

// Setting returns a kernel setting of a device.
func (n *Namespace) Setting(t testing.TB, family, device, name string) (value string) {
	t.Helper()
	n.Do(t, func() error {
		text, err := os.ReadFile(filepath.Join(sysctls, family, "conf", device, name))
		value = strings.TrimSpace(string(text))
		return err
	})
	return value
}

// BelieveNeighbours makes new devices of a namespace believe all messages of others, as a
// careless host does.
func (n *Namespace) BelieveNeighbours(t testing.TB) {
	t.Helper()
	for _, name := range []string{
		"ipv4/conf/default/accept_redirects", "ipv4/conf/default/send_redirects", "ipv4/conf/default/accept_source_route", "ipv4/conf/default/proxy_arp",
		"ipv6/conf/default/accept_redirects", "ipv6/conf/default/accept_ra", "ipv6/conf/default/autoconf", "ipv6/conf/default/accept_dad",
	} {
		n.Do(t, func() error { return os.WriteFile(filepath.Join(sysctls, name), []byte("1"), 0o644) })
	}
}
