// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Kernel reads and changes the links of the network namespace that it was opened in.
type Kernel struct {
	handle *rtnl.Socket
	space  ns.NetNS
}

// Open returns a Kernel for the network namespace of the calling thread.
func Open() (*Kernel, error) {
	handle, err := rtnl.OpenSocket()
	if err != nil {
		return nil, err
	}
	space, err := ns.GetCurrentNS()
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("open the network namespace for host links: %w", err)
	}
	return &Kernel{handle: handle, space: space}, nil
}

// Close releases what it has open. The links stay.
func (k *Kernel) Close() {
	k.handle.Close()
	_ = k.space.Close() // nothing was written
}

// devices returns all devices, with their addresses if those are needed.
func (k *Kernel) devices(withAddrs bool) ([]links.Device, error) {
	list, err := rtnl.Complete(k.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var addrs, lasting map[int][]netip.Addr
	if withAddrs {
		if addrs, lasting, err = k.addresses(); err != nil {
			return nil, err
		}
	}
	all := make([]links.Device, len(list))
	for i, link := range list {
		all[i] = deviceOf(link)
		all[i].Addrs, all[i].Lasting = addrs[all[i].Index], lasting[all[i].Index]
	}
	return all, nil
}

// addresses returns the addresses of all devices by index, and the lasting addresses among
// them.
func (k *Kernel) addresses() (all, lasting map[int][]netip.Addr, err error) {
	list, err := rtnl.Complete(func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, nil, fmt.Errorf("list addresses: %w", err)
	}
	all, lasting = map[int][]netip.Addr{}, map[int][]netip.Addr{}
	for _, addr := range list {
		ip, ok := netip.AddrFromSlice(addr.IP)
		if !ok {
			continue
		}
		all[addr.LinkIndex] = append(all[addr.LinkIndex], ip.Unmap())
		if lasts(addr) {
			lasting[addr.LinkIndex] = append(lasting[addr.LinkIndex], ip.Unmap())
		}
	}
	return all, lasting, nil
}

// lasts reports whether an address is one to tell other nodes. One whose prefix has no other
// address may move between nodes, and some of IPv6 are not used yet, or not for long.
func lasts(addr netlink.Addr) bool {
	const unused = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED | unix.IFA_F_TEMPORARY
	ones, bits := addr.Mask.Size()
	return ones < bits && (addr.IP.To4() != nil || addr.Flags&unused == 0)
}

// deviceOf describes a device. A VLAN of another protocol than 802.1Q, and a VXLAN device
// that collects metadata, have no number that a link could have.
func deviceOf(link netlink.Link) links.Device {
	a := link.Attrs()
	d := links.Device{
		Index: a.Index, Names: append([]string{a.Name}, a.AltNames...), Kind: link.Type(), Alias: a.Alias, Group: a.Group,
		MTU: a.MTU,
		Up:  a.Flags&net.FlagUp != 0, Ethernet: a.EncapType == "ether" && len(a.HardwareAddr) == 6, Lower: a.ParentIndex,
	}
	switch own := link.(type) {
	case *netlink.Vlan:
		if own.VlanProtocol == netlink.VLAN_PROTOCOL_8021Q {
			d.VNI = uint32(own.VlanId)
		}
	case *netlink.Vxlan:
		if own.FlowBased || own.Group != nil && !own.Group.IsUnspecified() {
			break
		}
		d.VNI, d.Port, d.Lower = uint32(own.VxlanId), uint16(own.Port), own.VtepDevIndex
		local, _ := netip.AddrFromSlice(own.SrcAddr)
		d.Local = local.Unmap()
	}
	return d
}

// describe returns the description of a new link that is unfinished.
func describe(l links.Link) netlink.Link {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Group = l.Name, l.MTU, links.Unfinished
	if l.Type == multinet.VLAN {
		attrs.ParentIndex = l.Parent
		return &netlink.Vlan{LinkAttrs: attrs, VlanId: int(l.VNI), VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	}
	return &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(l.VNI), VtepDevIndex: l.Parent, SrcAddr: l.Local.AsSlice(), Port: int(l.Port),
		// The filter admits known nodes only, so the device learns from their frames only.
		Learning: true, UDPCSum: true,
	}
}

// make creates a link in the group Unfinished, then sets its mark and removes it from the
// group in one request. By the group a daemon recognizes links that an ended process left
// without a mark.
func (k *Kernel) make(l links.Link) error {
	err := k.handle.LinkAdd(describe(l))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %s needs %s: %w", ifdriver.ErrUnsupported, l.Type, modules[l.Type], err)
	}
	if err != nil {
		return fmt.Errorf("make %s: %w%s", l.LinkID, err, remedy(err, l))
	}
	index, err := k.handle.IndexOf(l.Name)
	if err != nil {
		return err
	}
	if err := k.finish(index, l); err != nil {
		return errors.Join(err, k.delete(index))
	}
	return nil
}

// modules names what a kernel needs for each type of links.
var modules = map[string]string{
	multinet.VLAN: "the kernel module 8021q (CONFIG_VLAN_8021Q)", multinet.VXLAN: "the kernel module vxlan (CONFIG_VXLAN)",
}

// remedy says what to do about a refusal of the kernel.
func remedy(err error, l links.Link) string {
	switch {
	case errors.Is(err, unix.EEXIST) && l.Type == multinet.VLAN:
		return fmt.Sprintf(
			"; another program has made VLAN %d on %s: delete its device, or use another VLAN",
			l.VNI,
			l.Device,
		)
	case errors.Is(err, unix.EEXIST):
		return fmt.Sprintf(
			"; another device of the node has VXLAN %d and UDP port %d: delete it, or use another number",
			l.VNI,
			l.Port,
		)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Sprintf(
			"; UDP port %d is taken by another program: choose another with --host-link-vxlan-port (hostLinks.vxlanPort of the chart)",
			l.Port,
		)
	}
	return ""
}

// finish sets mark, group and state of a new link in one request.
func (k *Kernel) finish(index int, l links.Link) error {
	var up uint32
	if l.Up {
		up = unix.IFF_UP
	}
	var b rtnl.Batch
	b.SetLink("set alias and group", index, up, up, nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(links.Mark(l.LinkID))),
		nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(0)))
	if err := k.handle.Execute(&b); err != nil {
		return fmt.Errorf("mark %s as %s: %w", l.Name, l.LinkID, err)
	}
	return nil
}

// change gives a link its MTU, and sets it up if its parent is.
func (k *Kernel) change(c links.Change) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: c.Index}}
	if err := k.handle.LinkSetMTU(link, c.MTU); err != nil {
		return fmt.Errorf("set MTU %d of %s: %w", c.MTU, c.Name, err)
	}
	if !c.Up {
		return nil
	}
	if err := k.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up %s: %w", c.Name, err)
	}
	return nil
}

// delete deletes a link. A missing link is not an error.
func (k *Kernel) delete(index int) error {
	err := k.handle.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}})
	if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("delete device %d: %w", index, err)
	}
	return nil
}

// isLink reports whether the device of a name is a link that works.
func (k *Kernel) isLink(name string, id multinet.LinkID) bool {
	link, err := k.handle.LinkByName(name)
	if err != nil {
		return false
	}
	marked, ours := links.Marked(link.Attrs().Alias)
	return ours && marked == id && link.Attrs().Flags&net.FlagUp != 0
}

// standing returns the name of the link that the node has, or an errUnread.
func (k *Kernel) standing(id multinet.LinkID) (string, error) {
	devices, err := k.devices(false)
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		if marked, ours := links.Marked(d.Alias); ours && marked == id && d.Up {
			return d.Names[0], nil
		}
	}
	return "", fmt.Errorf("%s: %w", id, errUnread)
}

// everyone is the Ethernet address of a VXLAN device's default entries. The device sends
// frames there that match no other entry.
var everyone = net.HardwareAddr{0, 0, 0, 0, 0, 0}

// forward makes the default entries of VXLAN links equal to their peers. Learned entries
// that lead elsewhere age by themselves.
func (k *Kernel) forward(all []links.Link) error {
	if len(all) == 0 {
		return nil
	}
	held, err := k.forwarding()
	if err != nil {
		return err
	}
	var failures []error
	for _, l := range all {
		index, err := k.handle.IndexOf(l.Name)
		if err == nil {
			err = k.forwardOne(index, l.Peers, held[index])
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func (k *Kernel) forwardOne(index int, peers, held []netip.Addr) error {
	var failures []error
	for _, ip := range peers {
		if slices.Contains(held, ip) {
			continue
		}
		if err := k.handle.NeighAppend(entry(index, ip)); err != nil && !errors.Is(err, unix.EEXIST) {
			failures = append(failures, fmt.Errorf("add node %s to a VXLAN: %w", ip, err))
		}
	}
	for _, ip := range held {
		if slices.Contains(peers, ip) {
			continue
		}
		if err := k.handle.NeighDel(entry(index, ip)); err != nil && !errors.Is(err, unix.ENOENT) {
			failures = append(failures, fmt.Errorf("remove node %s from a VXLAN: %w", ip, err))
		}
	}
	return errors.Join(failures...)
}

// forwarding returns the default entries of all devices, by index.
func (k *Kernel) forwarding() (map[int][]netip.Addr, error) {
	list, err := rtnl.Complete(func() ([]netlink.Neigh, error) { return k.handle.NeighList(0, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("list forwarding entries: %w", err)
	}
	all := map[int][]netip.Addr{}
	for _, row := range list {
		if ip, ok := netip.AddrFromSlice(row.IP); ok && slices.Equal(row.HardwareAddr, everyone) {
			all[row.LinkIndex] = append(all[row.LinkIndex], ip.Unmap())
		}
	}
	return all, nil
}

func entry(index int, ip netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, Flags: netlink.NTF_SELF,
		HardwareAddr: everyone, IP: ip.AsSlice(),
	}
}
