// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/cnid/attach"
)

// loopbackIndex is that of lo in every network namespace (LOOPBACK_IFINDEX).
const loopbackIndex = 1

// procConf holds the kernel's per-device settings of the IPv6 of the calling
// thread's network namespace.
const procConf = "/proc/sys/net/ipv6/conf"

// configurePod sets up the pod's end, in the order that the kernel wants:
// settings before the device is up, routes afterwards.
func configurePod(h *socket, spec attach.Spec) error {
	ifindex, err := h.indexOf(spec.IfName)
	if err != nil {
		return err
	}
	var b batch
	if err := configureIPv6(&b, ifindex, spec); err != nil {
		return err
	}
	if spec.AltName != "" && spec.AltName != spec.IfName {
		b.addName(ifindex, spec.AltName)
	}
	b.setUp("set lo up", loopbackIndex)
	b.setUp(fmt.Sprintf("set %s up", spec.IfName), ifindex)
	for _, addr := range spec.Addrs {
		b.addAddress(ifindex, addr)
	}
	for i, gateway := range spec.Gateways {
		// A gateway outside the address's prefix is on the link all the same: the
		// datapath answers for it.
		b.addDefaultRoute(ifindex, gateway, i >= len(spec.Addrs) || !spec.Addrs[i].Contains(gateway))
	}
	return b.execute(h.batches)
}

// configureIPv6 keeps the kernel from adding to what was decided. Without IPv6
// in the namespace there is nothing to set, unless an address needs it.
func configureIPv6(b *batch, ifindex int, spec attach.Spec) error {
	dir := filepath.Join(procConf, spec.IfName)
	_, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) && !hasIPv6(spec) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up IPv6 settings (is IPv6 off in this kernel?): %w", err)
	}
	b.setLink("set no link-local address", ifindex, 0, 0, noLinkLocal())
	settings := [][2]string{{"accept_ra", "0"}, {"accept_dad", "0"}, {"autoconf", "0"}}
	if hasIPv6(spec) {
		// Some runtimes turn IPv6 off in new namespaces.
		settings = append(settings, [2]string{"disable_ipv6", "0"})
	}
	for _, s := range settings {
		if err := set(filepath.Join(dir, s[0]), s[1]); err != nil {
			return fmt.Errorf("set IPv6 setting %s: %w", s[0], err)
		}
	}
	return nil
}

// set writes a setting that has another value. The kernel takes its lock of all
// devices for some also when nothing changes.
func set(path, value string) error {
	now, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(now)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// kernelHasIPv6 reports whether the kernel has IPv6, which it may be built or booted without.
func kernelHasIPv6() bool {
	_, err := os.Stat(procConf)
	return err == nil
}

func hasIPv6(spec attach.Spec) bool {
	for _, addr := range spec.Addrs {
		if addr.Addr().Is6() {
			return true
		}
	}
	return false
}
