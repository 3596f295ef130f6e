// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// vids are the VLANs of a port of a bridge, each with its flags: BRIDGE_VLAN_INFO_PVID is
// the one of untagged frames that come, and BRIDGE_VLAN_INFO_UNTAGGED is sent without tag.
type vids map[uint16]uint16

// native are the flags of the VLAN of untagged frames.
const native = nl.BRIDGE_VLAN_INFO_PVID | nl.BRIDGE_VLAN_INFO_UNTAGGED

// vlans returns the VLANs of all ports of bridges, by their indexes.
func (k *Kernel) vlans(ctx context.Context) (map[uint32]vids, error) {
	messages, err := k.dump(ctx, unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_BRIDGE), sized(unix.IFLA_EXT_MASK, 4, compressedVLANs))
	if err != nil {
		return nil, fmt.Errorf("list VLANs of ports: %w", err)
	}
	all := map[uint32]vids{}
	for _, message := range messages {
		if l, ok := readLink(message); ok {
			all[l.index] = readVIDs(l.Get(unix.IFLA_AF_SPEC))
		}
	}
	return all, nil
}

// readVIDs reads VLANs, of which ranges are two entries.
func readVIDs(list attributes) vids {
	all, begin := vids{}, uint16(0)
	const size = 4 // struct bridge_vlan_info
	for kind, entry := range list.All() {
		if kind != nl.IFLA_BRIDGE_VLAN_INFO || len(entry) < size {
			continue
		}
		flags, vid := binary.NativeEndian.Uint16(entry), binary.NativeEndian.Uint16(entry[2:])
		switch {
		case flags&nl.BRIDGE_VLAN_INFO_RANGE_BEGIN != 0:
			begin = vid
		case flags&nl.BRIDGE_VLAN_INFO_RANGE_END != 0:
			for v := begin; v <= vid; v++ {
				all[v] = flags & native
			}
		default:
			all[vid] = flags & native
		}
	}
	return all
}

// show returns VLANs as a document has them: one that is sent and comes without tag, and
// no other, is an access port.
func (v vids) show() *document.PortVLAN {
	if len(v) == 0 {
		return &document.PortVLAN{}
	}
	shown := &document.PortVLAN{Mode: document.PortTrunk, EnableNative: new(false)}
	var tagged []uint16
	for _, vid := range slices.Sorted(maps.Keys(v)) {
		if v[vid] != native {
			tagged = append(tagged, vid)
			continue
		}
		shown.Tag, shown.EnableNative = new(int(vid)), new(true)
	}
	if len(tagged) == 0 {
		shown.Mode, shown.EnableNative, shown.TrunkTags = document.PortAccess, nil, []document.TrunkTag{}
		return shown
	}
	shown.TrunkTags = trunk(tagged)
	return shown
}

// trunk makes ranges of VLANs in order that follow each other.
func trunk(tagged []uint16) []document.TrunkTag {
	var tags []document.TrunkTag
	for _, run := range runs(tagged) {
		if run.first == run.last {
			tags = append(tags, document.TrunkTag{ID: new(int(run.first))})
			continue
		}
		tags = append(tags, document.TrunkTag{Range: &document.TagRange{Min: int(run.first), Max: int(run.last)}})
	}
	return tags
}

// run are VLANs without a gap.
type run struct{ first, last uint16 }

// end is the last VLAN of a range for the library, 0 for one VLAN alone.
func (r run) end() uint16 {
	if r.first == r.last {
		return 0
	}
	return r.last
}

func runs(ordered []uint16) []run {
	var list []run
	for _, vid := range ordered {
		if n := len(list); n > 0 && list[n-1].last+1 == vid {
			list[n-1].last = vid
			continue
		}
		list = append(list, run{vid, vid})
	}
	return list
}

// maxVLAN is the highest tag (IEEE 802.1Q).
const maxVLAN = 4094

// wantedVIDs are the VLANs of a port of a document. A port without VLANs of its own has
// the bridge's default one, which is 0 for none.
func wantedVIDs(port document.PortVLAN, standard uint16) (vids, error) {
	want := vids{}
	switch {
	case port.Mode == "" && standard > 0:
		want[standard] = native
		return want, nil
	case port.Mode == "":
		return want, nil
	case port.Mode == document.PortAccess && port.Tag == nil:
		return nil, errors.New("tag: an access port needs one")
	case port.Mode == document.PortTrunk && port.Tag != nil && (port.EnableNative == nil || !*port.EnableNative):
		return nil, errors.New("tag: a trunk has one for untagged frames only: set enable-native to true, or remove tag")
	}
	if err := want.carry(port.TrunkTags); err != nil {
		return nil, err
	}
	if port.Tag != nil {
		if *port.Tag < 1 || *port.Tag > maxVLAN {
			return nil, fmt.Errorf("tag: %d: want 1 to %d", *port.Tag, maxVLAN)
		}
		want[uint16(*port.Tag)] = native
	}
	return want, nil
}

// carry adds the VLANs of a trunk.
func (v vids) carry(tags []document.TrunkTag) error {
	for n, tag := range tags {
		first, last := ends(tag)
		if first < 1 || last > maxVLAN || first > last {
			return fmt.Errorf("trunk-tags[%d]: %d to %d: want 1 to %d, the lower one first", n, first, last, maxVLAN)
		}
		for vid := first; vid <= last; vid++ {
			v[uint16(vid)] = 0
		}
	}
	return nil
}

func ends(tag document.TrunkTag) (first, last int) {
	switch {
	case tag.Range != nil:
		return tag.Range.Min, tag.Range.Max
	case tag.ID != nil:
		return *tag.ID, *tag.ID
	default:
		return 0, 0
	}
}

// changeVLANs gives a port the VLANs that it shall have, and takes others.
func (k *Kernel) changeVLANs(ctx context.Context, bridge, port link, shall document.PortVLAN) error {
	want, err := wantedVIDs(shall, uint16(bridge.data.Value(nl.IFLA_BR_VLAN_DEFAULT_PVID)))
	if err != nil {
		return fmt.Errorf("bridge.port[%s].vlan.%w", port.name, err)
	}
	if shall.Mode != "" {
		if err := k.filter(ctx, bridge); err != nil {
			return err
		}
	}
	all, err := k.vlans(ctx)
	if err != nil {
		return err
	}
	if err := k.setVLANs(port, all[port.index], want); err != nil {
		return fmt.Errorf("VLANs of %s: %w", port.name, err)
	}
	return nil
}

// setVLANs removes VLANs before it adds some. One with a flag is no part of a range.
func (k *Kernel) setVLANs(port link, have, want vids) error {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(port.index)}}
	for _, r := range runs(missing(have, want)) {
		if err := k.handle.BridgeVlanDelRange(device, r.first, r.end(), false, false, false, false); err != nil {
			return fmt.Errorf("remove %d to %d: %w", r.first, r.last, err)
		}
	}
	tagged := maps.Clone(want)
	maps.DeleteFunc(tagged, func(_, flags uint16) bool { return flags == native })
	for _, r := range runs(missing(tagged, have)) {
		if err := k.handle.BridgeVlanAddRange(device, r.first, r.end(), false, false, false, false); err != nil {
			return fmt.Errorf("add %d to %d: %w", r.first, r.last, err)
		}
	}
	for _, vid := range missing(want, have) {
		if want[vid] != native {
			continue
		}
		if err := k.handle.BridgeVlanAdd(device, vid, true, true, false, false); err != nil {
			return fmt.Errorf("add %d for untagged frames: %w", vid, err)
		}
	}
	return nil
}

// missing are the VLANs of one port that another one has not, or has otherwise, in order.
func missing(from, in vids) []uint16 {
	var list []uint16
	for _, vid := range slices.Sorted(maps.Keys(from)) {
		if flags, ok := in[vid]; !ok || flags != from[vid] {
			list = append(list, vid)
		}
	}
	return list
}
