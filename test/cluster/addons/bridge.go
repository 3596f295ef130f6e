// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// pluginDir is where Debian's containernetworking-plugins puts its binaries.
const pluginDir = "/usr/lib/cni"

// Bridge is a node whose pods the plugins bridge and host-local of the CNI project connect.
type Bridge struct {
	Machine node.Machine
	// NetNS is the file of the node's network namespace.
	NetNS string
	// IPv4 and IPv6 are the addresses of the node in the underlay.
	IPv4, IPv6 netip.Addr
}

// ConfigureBridges gives every node a bridge with a range of its own and
// routes to the other nodes' ranges.
func ConfigureBridges(nodes []Bridge) error {
	for i := range nodes {
		if err := nodes[i].configure(i + 1); err != nil {
			return fmt.Errorf("configure the bridge of %s: %w", nodes[i].Machine.Name, err)
		}
		if err := routePods(nodes, i); err != nil {
			return fmt.Errorf("route pods on %s: %w", nodes[i].Machine.Name, err)
		}
	}
	return nil
}

// PodRanges returns the pod ranges of node i, counted from 1.
func PodRanges(i int) []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24),
		netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%x::/64", i)),
	}
}

// configure installs the plugins on node i, and their configuration.
func (b *Bridge) configure(i int) error {
	return InstallBridge(b.Machine, "10-bridge.conflist", PodRanges(i), 0)
}

// InstallBridge gives a node the plugins, and their configuration in a file of a name. With the
// MTU 0 the kernel chooses the MTU.
func InstallBridge(machine node.Machine, name string, ranges []netip.Prefix, mtu int) error {
	for _, plugin := range []string{"bridge", "host-local"} {
		if err := InstallPlugin(machine, plugin); err != nil {
			return err
		}
	}
	raw, err := bridgeConflist(ranges, mtu)
	if err != nil {
		return err
	}
	// containerd reads the folder whenever it changes: no half-written file.
	file := machine.Path("cni-conf", name)
	if err := os.WriteFile(file+".new", raw, 0o644); err != nil {
		return fmt.Errorf("write the network configuration: %w", err)
	}
	return os.Rename(file+".new", file)
}

// bridgeConflist is a CNI network configuration list.
func bridgeConflist(ranges []netip.Prefix, mtu int) ([]byte, error) {
	var sets [][]map[string]string
	var routes []map[string]string
	for _, r := range ranges {
		sets = append(sets, []map[string]string{{"subnet": r.String()}})
		all := "0.0.0.0/0"
		if r.Addr().Is6() {
			all = "::/0"
		}
		routes = append(routes, map[string]string{"dst": all})
	}
	raw, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "lab",
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "mtu": mtu,
			"ipam": map[string]any{"type": "host-local", "ranges": sets, "routes": routes},
		}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the network configuration: %w", err)
	}
	return raw, nil
}

// routePods routes the other nodes' pod ranges on one node.
func routePods(nodes []Bridge, one int) error {
	return process.OnThread(func() error {
		if err := (process.Space{Net: nodes[one].NetNS}).Enter(); err != nil {
			return err
		}
		for i, other := range nodes {
			if i == one {
				continue
			}
			for _, r := range PodRanges(i + 1) {
				via := other.IPv4
				if r.Addr().Is6() {
					via = other.IPv6
				}
				dst := &net.IPNet{IP: r.Addr().AsSlice(), Mask: net.CIDRMask(r.Bits(), r.Addr().BitLen())}
				if err := netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: via.AsSlice()}); err != nil {
					return fmt.Errorf("route %s by %s: %w", r, via, err)
				}
			}
		}
		return nil
	})
}

// InstallPlugin copies a plugin of the CNI project to a node. An existing file is kept, as
// a running program cannot be overwritten.
func InstallPlugin(machine node.Machine, plugin string) error {
	in, err := os.Open(filepath.Join(pluginDir, plugin))
	if err != nil {
		return fmt.Errorf("open a plugin: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(machine.Path("cni-bin", plugin), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("install a plugin: %w", err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("install a plugin: %w", err)
	}
	return out.Close()
}
