// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// Numbers of include/uapi/linux/if_bridge.h. A dump has one message for each bridge, with
// lists in lists; a request has one group.
const (
	newGroup, delGroup, getGroup = 84, 85, 86 // RTM_NEWMDB, RTM_DELMDB, RTM_GETMDB
	headerOfGroup                = 8          // struct br_port_msg
	listOfGroups                 = 1          // MDBA_MDB, and in it MDBA_MDB_ENTRY and _ENTRY_INFO
	theGroup, detailsOfGroup     = 1, 2       // MDBA_SET_ENTRY, MDBA_SET_ENTRY_ATTRS
	sizeOfGroup                  = 28         // struct br_mdb_entry
	stateOfGroup, flagsOfGroup   = 4, 5       // in it
	shownSource, source          = 4, 1       // MDBA_MDB_EATTR_SOURCE, MDBE_ATTR_SOURCE
)

func groups() class {
	return class{getGroup, newGroup, delGroup, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, headerOfGroup, always(), func(Message) {}}
}

// eachGroup returns the groups of a dump that somebody made, each as a request has it.
func eachGroup(bridges []Message) (list []Message) {
	for _, m := range bridges {
		for _, entries := range groups().attributes(m).Get(listOfGroups).All() {
			for _, shown := range entries.All() {
				if len(shown) >= sizeOfGroup && shown[stateOfGroup] != 0 {
					list = append(list, groupOf(m[:headerOfGroup], shown))
				}
			}
		}
	}
	return list
}

func groupOf(bridge Message, shown attribute.List) Message {
	group := append([]byte{}, shown[:sizeOfGroup]...)
	group[flagsOfGroup] = 0
	m := append(Message{}, bridge...)
	m[0] = unix.AF_BRIDGE // a dump has none
	m = appendAttribute(m, theGroup, group)
	if from := shown[sizeOfGroup:].Get(shownSource); from != nil {
		m = appendAttribute(m, detailsOfGroup|unix.NLA_F_NESTED, appendAttribute(nil, source, from))
	}
	return m
}

func portOfGroup(m Message) []byte { return groups().attributes(m).Get(theGroup) }

// restoreGroups adds the groups of multicast that bridges lack. A bridge that is down takes
// none.
func (p *planner) restoreGroups(before, now []Message) {
	c, have := groups(), canonical(groups(), now)
	for _, m := range before {
		group, bridge := portOfGroup(m), deviceOf(m)
		if have[c.canonical(m)] || len(group) < sizeOfGroup || p.before[bridge].flags&unix.IFF_UP == 0 || !p.has(bridge) {
			continue
		}
		if port := binary.NativeEndian.Uint32(group); p.has(port) {
			p.request(Request{What: fmt.Sprintf("add a group of %s", p.before[bridge].name), Kind: c.add, Flags: c.create, Body: m})
		}
	}
}
