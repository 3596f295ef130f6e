// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/store"
)

// errNoUnderlay reports that the Node object has no address for the tunnel yet.
var errNoUnderlay = errors.New("the Node object has no InternalIP")

// Prepare makes the devices and opens the datapath for the kernel's node. It returns
// nil if its Node object is not known. Only a thorough call checks existing devices.
func (k *Kernel) Prepare(self *store.Node, thorough bool) error {
	if self == nil {
		return errNoUnderlay
	}
	k.pods.Store(self.Pods)
	k.kubeletPort = self.KubeletPort
	source4, source6 := firstOf(self.Addresses, ipfamily.IPv4), firstOf(self.Addresses, ipfamily.IPv6)
	tunnel := source4
	if !tunnel.IsValid() {
		tunnel = source6
	}
	if !tunnel.IsValid() {
		return errNoUnderlay
	}
	if thorough || k.path == nil || tunnel != k.tunnel {
		if err := k.makeDevices(tunnel, source6); err != nil {
			return err
		}
	}
	return k.open(programs.Config{
		PinDir: k.cfg.PinDir, CgroupRoot: k.cfg.CgroupRoot, VXLANIfindex: k.indexes.Tunnel, TunnelPort: k.cfg.TunnelPort,
		LinkPort:        k.cfg.LinkPort,
		UnderlayIfindex: k.pushOn(), UnderlayMAC: k.underlay.MAC, UnderlayIfindex6: k.over6, TunnelSource4: source4,
		TunnelSource6:   source6,
		FragmentIfindex: k.indexes.Fragment, FragmentPeerIfindex: k.indexes.FragmentPeer,
		NodeShadow4: journal.NodeShadow(k.cfg.Shadow4), NodeShadow6: journal.NodeShadow(k.cfg.Shadow6),
		KubeletPort: k.kubeletPort, PodCgroup: k.cfg.PodCgroup, GuardedPort: k.cfg.GuardedPort,
		ConnectedDatagrams:      k.cfg.EndsSockets,
		ConnectionsPerInterface: min(k.cfg.ConnectionsPerInterface, programs.ShareOfConnections(k.pods.Load())),
	})
}

// makeDevices finds the devices of the node's addresses, and makes Alioth's own
// devices.
func (k *Kernel) makeDevices(tunnel, source6 netip.Addr) error {
	underlay, err := k.cfg.Host.Underlay(tunnel)
	if err != nil {
		return fmt.Errorf("find the node's network: %w", err)
	}
	// As for a pod with IPv6, which the node may have.
	k.indexes, err = k.cfg.Host.Links(
		netdev.Devices{TunnelPort: k.cfg.TunnelPort, MTU: max(underlay.PodMTU, ifdriver.MinMTU6)},
	)
	if err != nil {
		return err
	}
	k.tunnel, k.underlay = tunnel, underlay
	k.over6, err = k.deviceOf(source6)
	return err
}

// deviceOf returns the index of the device with an address; 0: none.
func (k *Kernel) deviceOf(ip netip.Addr) (int, error) {
	if !ip.IsValid() {
		return 0, nil
	}
	found, err := k.cfg.Host.Underlay(ip)
	if errors.Is(err, netdev.ErrNoUnderlay) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the node's network: %w", err)
	}
	return found.Ifindex, nil
}

// pushOn is the device on which the programs push and pop outer headers, which
// they do over IPv4 only; 0: none.
func (k *Kernel) pushOn() int {
	if k.tunnel.Is4() {
		return k.underlay.Ifindex
	}
	return 0
}

// firstOf returns the first address of a family, or the zero value.
func firstOf(addrs []netip.Addr, family ipfamily.Family) netip.Addr {
	at := slices.IndexFunc(addrs, family.Has)
	if at < 0 {
		return netip.Addr{}
	}
	return addrs[at]
}

// open replaces the open datapath when the load-time configuration of the programs has
// changed. The new programs replace the old ones on every hook.
func (k *Kernel) open(cfg programs.Config) error {
	// Only the loop writes these fields. A reader of the datapath may hold the lock for
	// long.
	if k.path != nil && k.opened == cfg {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	path, err := openDatapath(cfg, k.cfg.Log)
	if err != nil {
		return fmt.Errorf("open datapath: %w", err)
	}
	if k.path != nil {
		err = k.path.Close()
	}
	k.path, k.opened = path, cfg
	for _, reader := range k.cfg.Readers {
		err = errors.Join(err, reader.ReadFrom(path))
	}
	return err
}

// Uplink returns the index of the device where the programs guard the node's network. It
// returns 0 if they are not loaded, or no device is guarded.
func (k *Kernel) Uplink() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opened.Uplink()
}

// openDatapath loads the programs, which the running ones outlive if that fails, and
// puts them in their place.
func openDatapath(cfg programs.Config, log *slog.Logger) (*datapath.Datapath, error) {
	loaded, err := programs.Load(cfg)
	if err != nil {
		return nil, err
	}
	return datapath.Open(loaded, log)
}

// Made implements Programmer.
func (k *Kernel) Made() Made {
	i := k.indexes
	return Made{
		PodMTU: k.underlay.PodMTU, NodePeer: i.NodePeer,
		Devices: []int{i.Tunnel, i.Node, i.NodePeer, i.Fragment, i.FragmentPeer, k.underlay.Ifindex},
	}
}

// Existing implements Programmer.
func (k *Kernel) Existing(names []string) (map[string]int, error) { return k.cfg.Host.Existing(names) }
