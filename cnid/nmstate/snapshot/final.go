// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Final returns what a change of an area would delete that no undo can bring back. The image
// is that of all devices.
func (i *Image) Final(a Area) (final []string) {
	list, _ := linksOf(i)
	lost := a.lost(list)
	after := *i
	after.Links = filtered(i.Links, func(m Message) bool { return !lost[deviceOf(m)] })
	_, final = Back(i, &after, a, 0)
	for _, l := range list {
		if what := l.unkept(); lost[l.index] && what != "" {
			final = append(final, fmt.Sprintf("%s: %s", l.name, what))
		}
	}
	for _, m := range i.Queues {
		if l := linkOf(i.device(deviceOf(m))); lost[l.index] {
			final = append(final, fmt.Sprintf("%s: the queueing discipline %s (tc-%s(8))", l.name, queues().attributes(m).Text(nl.TCA_KIND), queues().attributes(m).Text(nl.TCA_KIND)))
		}
	}
	return final
}

// device returns the message of a device.
func (i *Image) device(index uint32) Message {
	at := slices.IndexFunc(i.Links, func(m Message) bool { return deviceOf(m) == index })
	if at < 0 {
		return nil
	}
	return i.Links[at]
}

// unkept returns what a device has beside its messages, "" for nothing.
func (l link) unkept() string {
	const attached, sources = 2, 6 // IFLA_XDP_ATTACHED, IFLA_MACVLAN_MACADDR_COUNT
	switch {
	case l.Get(unix.IFLA_XDP).Value(attached) != 0:
		return "a program of XDP"
	case l.driver == "macvlan" && l.data.Value(sources) != 0:
		return "a list of source addresses"
	case slices.Contains([]string{"macsec", "wireguard", "tun", "team", "hsr", "batadv"}, l.driver):
		return "settings of " + l.driver + " that another program made"
	}
	return ""
}

// isByHandQueue reports whether somebody made a queueing discipline: those of the kernel have
// no handle.
func isByHandQueue(m Message) bool {
	const handle = 8 // in struct tcmsg
	return len(m) >= headerOfQueue && binary.NativeEndian.Uint32(m[handle:]) != 0
}
