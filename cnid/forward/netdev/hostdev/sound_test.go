// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostdev

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
)

func TestState_ContradictoryEntry_OnlyItLeftOut(t *testing.T) {
	shadow, other := netip.MustParseAddr("169.254.64.5"), netip.MustParseAddr("169.254.64.6")
	own := NodeInterface{Addrs: []netip.Addr{netip.MustParseAddr("10.244.0.7")}, MAC: [6]byte{2}}
	healthy := Pod{Device: "alv1", Ifindex: 5, Shadows: []netip.Addr{shadow}}
	for name, c := range map[string]struct {
		state, want State
	}{
		"a pod without a device":       {State{Node: own, Pods: []Pod{{Device: "alv2"}, healthy}}, State{Node: own, Pods: []Pod{healthy}}},
		"two shadows of a family":      {State{Node: own, Pods: []Pod{healthy, {Device: "alv2", Ifindex: 6, Shadows: []netip.Addr{shadow, other}}}}, State{Node: own, Pods: []Pod{healthy}}},
		"no address":                   {State{Node: NodeInterface{Addrs: []netip.Addr{{}}}, Pods: []Pod{healthy}}, State{Pods: []Pod{healthy}}},
		"a group's MAC for the node":   {State{Node: NodeInterface{Addrs: own.Addrs, MAC: [6]byte{1}}, Pods: []Pod{healthy}}, State{Pods: []Pod{healthy}}},
		"addresses of one family, two": {State{Node: NodeInterface{Addrs: []netip.Addr{shadow, other}}, Pods: []Pod{healthy}}, State{Pods: []Pod{healthy}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.state.Validate(); !errors.Is(err, ErrInvalid) {
				t.Errorf("the state gives the error %v", err)
			}
			now, left := c.state.Sound()
			if err := now.Validate(); err != nil || len(left) != 1 || !reflect.DeepEqual(now, c.want) {
				t.Errorf("left out: %v; the rest is %+v, want %+v, and gives the error %v", left, now, c.want, err)
			}
		})
	}
}
