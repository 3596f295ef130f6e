// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// link is a device as the kernel describes it.
type link struct {
	index    uint32
	hardware uint16 // ARPHRD_*
	flags    uint32 // IFF_*
	name     string
	// controller is the index of what the device is a port of, 0 for none.
	controller uint32
	attributes
	// driver is the kind of a virtual device, "" of others, and data what only that has.
	driver string
	data   attributes
	// portData is what the controller's driver has of a port.
	portData attributes
}

// Lists of numbers below are in include/uapi/linux/if_link.h. The library lacks these.
const (
	skipStatistics  = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	functions       = 1 << 0 // RTEXT_FILTER_VF
	compressedVLANs = 1 << 2 // RTEXT_FILTER_BRVLAN_COMPRESSED
)

// wanted asks for virtual functions, and for no counters: they take most of the time.
func wanted() *nl.RtAttr { return sized(unix.IFLA_EXT_MASK, 4, functions|skipStatistics) }

// links returns all devices.
func (k *Kernel) links(ctx context.Context) ([]link, error) {
	messages, err := k.dump(ctx, unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_UNSPEC), wanted())
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	list := make([]link, 0, len(messages))
	for _, message := range messages {
		if l, ok := readLink(message); ok {
			list = append(list, l)
		}
	}
	return list, nil
}

// readLink reads a message of a device, and returns false if it is none.
func readLink(message []byte) (l link, ok bool) {
	if len(message) < unix.SizeofIfInfomsg {
		return l, false
	}
	header := nl.DeserializeIfInfomsg(message)
	l = link{index: uint32(header.Index), hardware: header.Type, flags: header.Flags, attributes: message[unix.SizeofIfInfomsg:]}
	l.name, l.controller = l.Text(unix.IFLA_IFNAME), l.Value(unix.IFLA_MASTER)
	info := l.Get(unix.IFLA_LINKINFO)
	l.driver, l.data, l.portData = info.Text(nl.IFLA_INFO_KIND), info.Get(nl.IFLA_INFO_DATA), info.Get(nl.IFLA_INFO_SLAVE_DATA)
	return l, true
}

func (l link) up() bool { return l.flags&unix.IFF_UP != 0 }

// elsewhere reports whether the device that this one is on, or its other end, is in another
// network namespace.
func (l link) elsewhere() bool { return l.Get(unix.IFLA_LINK_NETNSID) != nil }

// kind is the type of a device in documents.
func (l link) kind() string {
	switch {
	case l.driver != "":
		if k, ok := kindByDriver(l.driver); ok {
			return k.name
		}
	case l.hardware == unix.ARPHRD_ETHER:
		return document.Ethernet
	case l.hardware == unix.ARPHRD_LOOPBACK:
		return document.Loopback
	}
	return document.Unknown
}

// mac returns an attribute with an Ethernet address in upper-case hex, "" if there is none.
func (l link) mac(kind uint16) string {
	const octets = 6
	address := l.Get(kind)
	if len(address) != octets {
		return ""
	}
	return strings.ToUpper(strings.ReplaceAll(fmt.Sprintf("% x", []byte(address)), " ", ":"))
}

// errNoDevice: no device has a name.
var errNoDevice = errors.New("no such interface")

// link returns a device. If there is none, the error is errNoDevice. The kernel takes an
// alternative name for a name, but no step has one.
func (k *Kernel) link(ctx context.Context, name string) (link, error) {
	l, err := k.found(ctx, zeroEnded(unix.IFLA_IFNAME, name))
	if err != nil {
		return link{}, fmt.Errorf("look up interface %s: %w", name, err)
	}
	if l.name != name {
		return link{}, fmt.Errorf("%s: %w", name, errNoDevice)
	}
	return l, nil
}

// found returns the device that an attribute identifies, the zero link if there is none.
func (k *Kernel) found(ctx context.Context, by *nl.RtAttr) (link, error) {
	messages, err := k.ask(ctx, unix.RTM_GETLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC), by, wanted())
	if errors.Is(err, unix.ENODEV) {
		return link{}, nil
	}
	for _, message := range messages {
		if l, ok := readLink(message); ok {
			return l, nil
		}
	}
	return link{}, err
}

// Index returns the number of a device.
func (k *Kernel) Index(ctx context.Context, name string) (uint32, error) {
	l, err := k.link(ctx, name)
	return l.index, err
}

// modify changes attributes of a device.
func (k *Kernel) modify(ctx context.Context, l link, list ...*nl.RtAttr) error {
	return k.tell(ctx, unix.RTM_NEWLINK, 0, requests(l.header(), list)...)
}

// header begins a request about a device.
func (l link) header() *nl.IfInfomsg {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(l.index)
	return header
}

// flag sets or clears a flag of a device.
func (k *Kernel) flag(ctx context.Context, l link, flag uint32, on bool) error {
	header := l.header()
	header.Change = flag
	if on {
		header.Flags = flag
	}
	return k.tell(ctx, unix.RTM_NEWLINK, 0, header)
}

// requests is a header and attributes as one list.
func requests(header nl.NetlinkRequestData, list []*nl.RtAttr) []nl.NetlinkRequestData {
	all := []nl.NetlinkRequestData{header}
	for _, attribute := range list {
		all = append(all, attribute)
	}
	return all
}

// named is an attribute with the index of a device that has a name.
func (k *Kernel) named(ctx context.Context, kind uint16, name string) (*nl.RtAttr, error) {
	l, err := k.link(ctx, name)
	if err != nil {
		return nil, err
	}
	return nl.NewRtAttr(int(kind), binary.NativeEndian.AppendUint32(nil, l.index)), nil
}

// altNames are the alternative names of a device, sorted.
func (l link) altNames() (list []document.AltName) {
	for kind, name := range l.Get(unix.IFLA_PROP_LIST).All() {
		if kind == unix.IFLA_ALT_IFNAME {
			list = append(list, document.AltName{Name: unix.ByteSliceToString(name)})
		}
	}
	slices.SortFunc(list, func(a, b document.AltName) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// changeAltNames adds alternative names, and removes those that are absent.
func (k *Kernel) changeAltNames(ctx context.Context, l link, list []document.AltName) error {
	has := l.altNames()
	var added, removed []string
	for _, a := range list {
		there := slices.Contains(has, document.AltName{Name: a.Name})
		switch {
		case a.State == document.Absent && there:
			removed = append(removed, a.Name)
		case a.State != document.Absent && !there:
			added = append(added, a.Name)
		}
	}
	if err := k.properties(ctx, unix.RTM_DELLINKPROP, 0, l, removed); err != nil {
		return err
	}
	return k.properties(ctx, unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND, l, added)
}

// properties asks for a change of alternative names, if there are any.
func (k *Kernel) properties(ctx context.Context, kind, flags int, l link, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	for _, name := range names {
		list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(name))
	}
	return k.tell(ctx, kind, flags, l.header(), list)
}

// NameOf returns the name of the device that has a name or an alternative name. Without such a
// device it is what was asked for.
func (k *Kernel) NameOf(ctx context.Context, name string) (string, error) {
	if name == "" || len(name) > document.LongestAltName {
		return name, nil // No device has such a name.
	}
	l, err := k.found(ctx, zeroEnded(unix.IFLA_ALT_IFNAME, name))
	switch {
	case err != nil:
		return name, err
	case l.name == "":
		return name, nil
	default:
		return l.name, nil
	}
}
