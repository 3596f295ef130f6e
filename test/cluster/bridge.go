// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

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

	"github.com/alioth-net/alioth/test/cluster/process"
)

// pluginDir is where Debian's containernetworking-plugins puts its binaries.
const pluginDir = "/usr/lib/cni"

// configureBridges gives every node a bridge with a range of its own and
// routes to the other nodes' ranges.
func (c *Cluster) configureBridges() error {
	c.progress("configuring the plugins bridge and host-local")
	for i, n := range c.Nodes() {
		if err := c.configureBridge(n.Name, i+1); err != nil {
			return fmt.Errorf("configure the bridge of %s: %w", n.Name, err)
		}
		if err := c.routePods(n.Name); err != nil {
			return fmt.Errorf("route pods on %s: %w", n.Name, err)
		}
	}
	return nil
}

// podRanges returns the pod ranges of node i, counted from 1.
func podRanges(i int) []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24),
		netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%x::/64", i)),
	}
}

func (c *Cluster) configureBridge(nodeName string, i int) error {
	return c.installBridge(nodeName, "10-bridge.conflist", podRanges(i), 0)
}

// installBridge gives a node the plugins and their configuration in a file of some name; mtu 0
// is the kernel's.
func (c *Cluster) installBridge(nodeName, name string, ranges []netip.Prefix, mtu int) error {
	machine := c.machine(nodeName)
	for _, plugin := range []string{"bridge", "host-local"} {
		if err := copyProgram(filepath.Join(pluginDir, plugin), machine.Path("cni-bin", plugin)); err != nil {
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
func (c *Cluster) routePods(nodeName string) error {
	return process.OnThread(func() error {
		if err := (process.Space{Net: c.NodeNetNS(nodeName)}).Enter(); err != nil {
			return err
		}
		for i, other := range c.Nodes() {
			if other.Name == nodeName {
				continue
			}
			for _, r := range podRanges(i + 1) {
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

// copyProgram copies an executable to a new file; an existing one is kept, as
// a running program cannot be overwritten.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open a plugin: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
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
