// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
)

// Lists of numbers below are in include/uapi/linux/if_link.h. The library lacks these.
const (
	skipStatistics  = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	functions       = 1 << 0 // RTEXT_FILTER_VF
	compressedVLANs = 1 << 2 // RTEXT_FILTER_BRVLAN_COMPRESSED
)

// wanted asks for virtual functions, and for no counters: they take most of the time.
func wanted() *nl.RtAttr { return convert.Sized(unix.IFLA_EXT_MASK, 4, functions|skipStatistics) }

// links returns all devices.
func (k *Kernel) links(ctx context.Context) ([]convert.Link, error) {
	messages, err := k.dump(ctx, unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_UNSPEC), wanted())
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	list := make([]convert.Link, 0, len(messages))
	for _, message := range messages {
		if l, ok := convert.ReadLink(message); ok {
			list = append(list, l)
		}
	}
	return list, nil
}

// errNoDevice: no device has a name.
var errNoDevice = errors.New("no such interface")

// link returns a device, and errNoDevice for an unknown name. The kernel accepts alternative
// names too, but steps have none.
func (k *Kernel) link(ctx context.Context, name string) (convert.Link, error) {
	l, err := k.found(ctx, convert.ZeroEnded(unix.IFLA_IFNAME, name))
	if err != nil {
		return convert.Link{}, fmt.Errorf("look up interface %s: %w", name, err)
	}
	if l.Name != name {
		return convert.Link{}, fmt.Errorf("%s: %w", name, errNoDevice)
	}
	return l, nil
}

// found returns the device that an attribute identifies, or the zero link.
func (k *Kernel) found(ctx context.Context, by *nl.RtAttr) (convert.Link, error) {
	messages, err := k.ask(ctx, unix.RTM_GETLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC), by, wanted())
	if errors.Is(err, unix.ENODEV) {
		return convert.Link{}, nil
	}
	for _, message := range messages {
		if l, ok := convert.ReadLink(message); ok {
			return l, nil
		}
	}
	return convert.Link{}, err
}

// Index returns the number of a device.
func (k *Kernel) Index(ctx context.Context, name string) (uint32, error) {
	l, err := k.link(ctx, name)
	return l.Index, err
}

// modify changes attributes of a device.
func (k *Kernel) modify(ctx context.Context, l convert.Link, list ...*nl.RtAttr) error {
	return k.tell(ctx, unix.RTM_NEWLINK, 0, convert.Requests(l.Header(), list)...)
}

// flag sets or clears a flag of a device.
func (k *Kernel) flag(ctx context.Context, l convert.Link, flag uint32, on bool) error {
	header := l.Header()
	header.Change = flag
	if on {
		header.Flags = flag
	}
	return k.tell(ctx, unix.RTM_NEWLINK, 0, header)
}

// named is an attribute with the index of a device that has a name.
func (k *Kernel) named(ctx context.Context, kind uint16, name string) (*nl.RtAttr, error) {
	l, err := k.link(ctx, name)
	if err != nil {
		return nil, err
	}
	return nl.NewRtAttr(int(kind), binary.NativeEndian.AppendUint32(nil, l.Index)), nil
}

// changeAltNames adds alternative names, and removes those that are absent.
func (k *Kernel) changeAltNames(ctx context.Context, l convert.Link, list []document.AltName) error {
	has := l.AltNames()
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
func (k *Kernel) properties(ctx context.Context, kind, flags int, l convert.Link, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	for _, name := range names {
		list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(name))
	}
	return k.tell(ctx, kind, flags, l.Header(), list)
}

// NameOf returns the name of the device that has a name or an alternative name. Without such a
// device it returns its argument.
func (k *Kernel) NameOf(ctx context.Context, name string) (string, error) {
	if name == "" || len(name) > document.LongestAltName {
		return name, nil // No device has such a name.
	}
	l, err := k.found(ctx, convert.ZeroEnded(unix.IFLA_ALT_IFNAME, name))
	switch {
	case err != nil:
		return name, err
	case l.Name == "":
		return name, nil
	default:
		return l.Name, nil
	}
}
