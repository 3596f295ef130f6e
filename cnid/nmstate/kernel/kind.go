// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// kind is a type of virtual devices.
type kind struct {
	// name is the type in documents, and driver that of the kernel.
	name, driver string
	// module has the driver, and option builds it (without CONFIG_).
	module, option string
	// show fills in the section of the type.
	show func(view, link, *document.Interface)
	// data are the attributes of the driver for what a request wants.
	data func(request) ([]*nl.RtAttr, error)
}

// kinds are those that the engine knows.
func kinds() []kind {
	return []kind{
		{document.VethPair, "veth", "veth", "VETH", showVeth, vethData},
		{document.Bond, "bond", "bonding", "BONDING", showBond, bondData},
		{document.LinuxBridge, "bridge", "bridge", "BRIDGE", showBridge, bridgeData},
		{document.Dummy, "dummy", "dummy", "DUMMY", func(view, link, *document.Interface) {}, noData},
		{document.VLANType, "vlan", "8021q", "VLAN_8021Q", showVLAN, vlanData},
		{document.VXLANType, "vxlan", "vxlan", "VXLAN", showVXLAN, vxlanData},
		{document.VRFType, "vrf", "vrf", "NET_VRF", showVRF, vrfData},
		{document.MACVLANType, "macvlan", "macvlan", "MACVLAN", showMACVLAN, macvlanData},
		{document.IPVLANType, "ipvlan", "ipvlan", "IPVLAN", showIPVLAN, ipvlanData},
	}
}

func kindByDriver(driver string) (kind, bool) {
	return kindWith(func(k kind) bool { return k.driver == driver })
}

func kindByName(name string) (kind, bool) {
	return kindWith(func(k kind) bool { return k.name == name })
}

func kindWith(is func(kind) bool) (kind, bool) {
	for _, k := range kinds() {
		if is(k) {
			return k, true
		}
	}
	return kind{}, false
}

// request is for a device that is made, or changes.
type request struct {
	want document.Interface
	// now is the device that changes, nil for one that is made.
	now *link
	// named makes an attribute with the index of the device of a name.
	named func(attribute uint16, name string) (*nl.RtAttr, error)
}

func (k *Kernel) request(ctx context.Context, want document.Interface, now *link) request {
	return request{want, now, func(attribute uint16, name string) (*nl.RtAttr, error) { return k.named(ctx, attribute, name) }}
}

func noData(request) ([]*nl.RtAttr, error) { return nil, nil }

// info is the attribute with the driver's own ones.
func (k kind) info(r request) (*nl.RtAttr, error) {
	data, err := k.data(r)
	if err != nil {
		return nil, err
	}
	list := []*nl.RtAttr{zeroEnded(nl.IFLA_INFO_KIND, k.driver)}
	if len(data) > 0 {
		list = append(list, nested(nl.IFLA_INFO_DATA, data))
	}
	return nested(unix.IFLA_LINKINFO, list), nil
}

func showVeth(v view, l link, i *document.Interface) { i.Veth = &document.Veth{Peer: v.base(l)} }

func vethData(r request) ([]*nl.RtAttr, error) {
	const peer = 1 // VETH_INFO_PEER
	if r.now != nil || r.want.Veth == nil || r.want.Veth.Peer == "" {
		return nil, nil
	}
	// The message of a device is in the attribute, with its header.
	end := nl.NewRtAttr(peer, nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize())
	end.AddChild(zeroEnded(unix.IFLA_IFNAME, r.want.Veth.Peer))
	return []*nl.RtAttr{end}, nil
}

func showVRF(v view, l link, i *document.Interface) {
	i.VRF = &document.VRF{Ports: v.portNames(l), Table: new(int64(l.data.Value(nl.IFLA_VRF_TABLE)))}
}

func vrfData(r request) ([]*nl.RtAttr, error) {
	if r.now != nil || r.want.VRF == nil || r.want.VRF.Table == nil {
		return nil, nil
	}
	return []*nl.RtAttr{sized(nl.IFLA_VRF_TABLE, 4, uint32(*r.want.VRF.Table))}, nil
}

// ErrLacks is of a kernel that has no devices of a type.
var ErrLacks = errors.New("this kernel has no devices of that type")

// Lacks returns an ErrLacks with the remedy if the kernel has no devices of a type of documents,
// and nil for a type that the engine does not make. The kernel loads the module if it can.
func (k *Kernel) Lacks(ctx context.Context, name string) error {
	asked, ok := kindByName(name)
	if !ok {
		return nil
	}
	// The kernel looks for the driver, and then refuses the MTU.
	const impossible = 1<<32 - 1
	info := nested(unix.IFLA_LINKINFO, []*nl.RtAttr{zeroEnded(nl.IFLA_INFO_KIND, asked.driver)})
	nobody := "al" + rand.Text()[:unix.IFNAMSIZ-len("al")-1]
	err := k.tell(ctx, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		zeroEnded(unix.IFLA_IFNAME, nobody), sized(unix.IFLA_MTU, 4, uint32(impossible)), info)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: load the module %s, or use a kernel with CONFIG_%s", ErrLacks, asked.module, asked.option)
	case err == nil:
		return fmt.Errorf("the kernel has made the device %s with an impossible MTU: delete it", nobody)
	default:
		return ctx.Err() // It refuses the device for another reason, so it knows the type.
	}
}
