// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/said"
)

// Final returns what a change of an area would delete that no undo can bring back. The image
// is that of all devices. above are the devices of other network namespaces on top of these, by
// index: no image has them, and pods may have named them.
func (i *Image) Final(a Area, above map[uint32][]string) (final []string) {
	list, _ := linksOf(i)
	lost := a.lost(list)
	after := *i
	after.Links = filtered(i.Links, func(m Message) bool { return !lost[deviceOf(m)] })
	_, final = Back(i, &after, a, 0)
	for _, l := range list {
		if what := l.unkept(); lost[l.index] && what != "" {
			final = append(final, fmt.Sprintf("%s: %s", l.name, what))
		}
		if names := above[l.index]; lost[l.index] && len(names) > 0 {
			final = append(final, fmt.Sprintf("%s: the interface %s on it, in another network namespace", l.name, said.Names(names)))
		}
		if !lost[l.index] && l.lostItsPorts() && slices.Contains(a.Identified, l.name) {
			final = append(final, fmt.Sprintf("%s: the address zero, which a bridge has after its last port", l.name))
		}
	}
	return append(final, i.finalQueues(lost)...)
}

// finalQueues returns the queueing disciplines and filters of devices that are lost for good
// with them.
func (i *Image) finalQueues(devices map[uint32]bool) (final []string) {
	for _, m := range i.Queues {
		if what := unkeptQueue(m); what != "" && devices[deviceOf(m)] {
			final = append(final, fmt.Sprintf("%s: %s", linkOf(i.device(deviceOf(m))).name, what))
		}
	}
	for _, m := range i.Filters {
		final = append(final, fmt.Sprintf("%s: the filter %s (tc-%[2]s(8))", linkOf(i.device(deviceOf(m))).name, kindOfQueue(m)))
	}
	slices.Sort(final)
	return slices.Compact(final)
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
