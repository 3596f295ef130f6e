// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// VIDs are the VLANs of a port of a bridge, each with its flags: BRIDGE_VLAN_INFO_PVID is
// the one of untagged frames that come, and BRIDGE_VLAN_INFO_UNTAGGED is sent without tag.
type VIDs map[uint16]uint16

// native are the flags of the VLAN of untagged frames.
const native = nl.BRIDGE_VLAN_INFO_PVID | nl.BRIDGE_VLAN_INFO_UNTAGGED

// ReadVIDs reads VLANs. A range is two entries of the list.
func ReadVIDs(list attributes) VIDs {
	all, begin := VIDs{}, uint16(0)
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
func (v VIDs) show() *document.PortVLAN {
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
		if run.First == run.Last {
			tags = append(tags, document.TrunkTag{ID: new(int(run.First))})
			continue
		}
		tags = append(tags, document.TrunkTag{Range: &document.TagRange{Min: int(run.First), Max: int(run.Last)}})
	}
	return tags
}

// Run is a list of VLANs without a gap.
type Run struct{ First, Last uint16 }

// End is the last VLAN of a range for the library, 0 for one VLAN alone.
func (r Run) End() uint16 {
	if r.First == r.Last {
		return 0
	}
	return r.Last
}

func runs(ordered []uint16) []Run {
	var list []Run
	for _, vid := range ordered {
		if n := len(list); n > 0 && list[n-1].Last+1 == vid {
			list[n-1].Last = vid
			continue
		}
		list = append(list, Run{vid, vid})
	}
	return list
}

// maxVLAN is the highest tag (IEEE 802.1Q).
const maxVLAN = 4094

// WantedVIDs are the VLANs of a port of a document. A port without VLANs of its own has
// the bridge's default one, which is 0 for none.
func WantedVIDs(port document.PortVLAN, standard uint16) (VIDs, error) {
	want := VIDs{}
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
func (v VIDs) carry(tags []document.TrunkTag) error {
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

// missing are the VLANs of one port that another one has not, or has otherwise, in order.
func missing(from, in VIDs) []uint16 {
	var list []uint16
	for _, vid := range slices.Sorted(maps.Keys(from)) {
		if flags, ok := in[vid]; !ok || flags != from[vid] {
			list = append(list, vid)
		}
	}
	return list
}

// Changes has the steps between two sets of VLANs of a port. The entries of Removed come first. A
// VLAN of untagged frames never belongs to a range.
type Changes struct {
	Removed, Added []Run
	// Untagged are those to add that are sent, and come, without tag.
	Untagged []uint16
}

// ChangesOf returns the steps from the VLANs that a port has to those that it shall have.
func ChangesOf(have, want VIDs) Changes {
	tagged := maps.Clone(want)
	maps.DeleteFunc(tagged, func(_, flags uint16) bool { return flags == native })
	untagged := missing(want, have)
	untagged = slices.DeleteFunc(untagged, func(vid uint16) bool { return want[vid] != native })
	return Changes{Removed: runs(missing(have, want)), Added: runs(missing(tagged, have)), Untagged: untagged}
}
