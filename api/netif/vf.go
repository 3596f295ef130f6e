// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/quote"
)

// Values of VF.SpoofCheck and VF.Trust.
const (
	On  = "on"
	Off = "off"
)

// Values of VF.LinkState.
const (
	LinkAuto    = "auto"
	LinkEnable  = "enable"
	LinkDisable = "disable"
)

// Values of VF.Proto.
const (
	VLANProtoQ  = "802.1q"
	VLANProtoAD = "802.1ad"
)

// Keys of VF.
const (
	VFSpoofCheck = "spoofchk"
	VFTrust      = "trust"
	VFLinkState  = "link_state"
	VFMinTxRate  = "min_tx_rate"
	VFMaxTxRate  = "max_tx_rate"
	VFQoS        = "vlanQoS"
	VFProto      = "vlanProto"
)

const (
	maxQoS = 7
	// maxRate is 1 Tbit/s, in Mbit/s.
	maxRate = 1_000_000
)

// VF has the settings of a virtual function that its physical function enforces. The zero
// value of a field stands for a key that is not given. SpoofCheck is on then and Trust is
// off; other settings of the device stay as they are.
type VF struct {
	// SpoofCheck is On or Off: the device drops packets with another source MAC than the
	// interface's.
	SpoofCheck string `json:"spoofchk,omitempty"`
	// Trust is On or Off: the interface may change its MAC, and receive packets that are
	// not its own.
	Trust string `json:"trust,omitempty"`
	// LinkState is LinkAuto, LinkEnable or LinkDisable.
	LinkState string `json:"link_state,omitempty"`
	// MinTxRate and MaxTxRate limit the interface's transmit rate in Mbit/s, 0 to 1,000,000;
	// 0 sets no limit.
	MinTxRate *int `json:"min_tx_rate,omitempty"`
	MaxTxRate *int `json:"max_tx_rate,omitempty"`
	// QoS is the priority in the VLAN tag, 0 to 7 (IEEE 802.1Q), and Proto the sort of
	// the tag: VLANProtoQ or VLANProtoAD. Both need a network with a VLAN.
	QoS   *int   `json:"vlanQoS,omitempty"`
	Proto string `json:"vlanProto,omitempty"`
}

// Check returns an error for a value that is out of its range.
func (vf VF) Check() error {
	for _, text := range []struct {
		key, value string
		values     []string
	}{
		{VFSpoofCheck, vf.SpoofCheck, []string{On, Off}},
		{VFTrust, vf.Trust, []string{On, Off}},
		{VFLinkState, vf.LinkState, []string{LinkAuto, LinkEnable, LinkDisable}},
		{VFProto, vf.Proto, []string{VLANProtoQ, VLANProtoAD}},
	} {
		if text.value != "" && !slices.Contains(text.values, text.value) {
			return fmt.Errorf(
				"%q has no value %s: use one of %s",
				text.key,
				quote.Text(text.value),
				strings.Join(text.values, ", "),
			)
		}
	}
	for _, number := range []struct {
		key   string
		value *int
		limit int
	}{{VFQoS, vf.QoS, maxQoS}, {VFMinTxRate, vf.MinTxRate, maxRate}, {VFMaxTxRate, vf.MaxTxRate, maxRate}} {
		if n := ptr.Deref(number.value, 0); n < 0 || n > number.limit {
			return fmt.Errorf("%q is %d, and its values are 0 to %d", number.key, n, number.limit)
		}
	}
	return vf.checkRates()
}

func (vf VF) checkRates() error {
	if highest := ptr.Deref(vf.MaxTxRate, 0); highest > 0 && ptr.Deref(vf.MinTxRate, 0) > highest {
		return errors.New(`"min_tx_rate" is above "max_tx_rate": lower the one or raise the other`)
	}
	return nil
}

// OnOff returns On or Off.
func OnOff(on bool) string {
	if on {
		return On
	}
	return Off
}

// ChecksSource reports whether the device drops packets with another source MAC than the MAC of
// the interface.
func (vf VF) ChecksSource() bool { return vf.SpoofCheck != Off }

// IsTrusted reports whether the interface may change its MAC, and receive packets of others.
func (vf VF) IsTrusted() bool { return vf.Trust == On }

// Priority returns the priority in the VLAN tag, 0 to 7.
func (vf VF) Priority() int { return ptr.Deref(vf.QoS, 0) }

// Keys lists the keys that are given, sorted.
func (vf VF) Keys() []string {
	var keys []string
	for key, given := range map[string]bool{
		VFSpoofCheck: vf.SpoofCheck != "", VFTrust: vf.Trust != "", VFLinkState: vf.LinkState != "", VFProto: vf.Proto != "",
		VFMinTxRate: vf.MinTxRate != nil, VFMaxTxRate: vf.MaxTxRate != nil, VFQoS: vf.QoS != nil,
	} {
		if given {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Privileged lists the given keys, sorted, whose values give an interface power over
// others on the device or on its network:
//   - spoofchk off and trust on: the pod may send in the name of other hosts.
//   - min_tx_rate: other interfaces of the device have less.
//   - vlanQoS: the pod's packets precede others on the wire.
//   - vlanProto: tags of another sort are another VLAN.
func (vf VF) Privileged() []string {
	return slices.DeleteFunc(vf.Keys(), func(key string) bool {
		switch key {
		case VFSpoofCheck:
			return vf.SpoofCheck == On
		case VFTrust:
			return vf.Trust == Off
		case VFLinkState, VFMaxTxRate:
			return true
		}
		return false
	})
}

// With adds the settings of a definition to the settings of the network that it names. It
// refuses a key that both set, so the network's author keeps the decision.
func (vf VF) With(definition VF) (VF, error) {
	for _, key := range definition.Keys() {
		if slices.Contains(vf.Keys(), key) {
			return VF{}, fmt.Errorf("the network has a value for %q: remove it from the definition", key)
		}
	}
	both := VF{
		SpoofCheck: cmp.Or(vf.SpoofCheck, definition.SpoofCheck), Trust: cmp.Or(vf.Trust, definition.Trust),
		LinkState: cmp.Or(vf.LinkState, definition.LinkState), Proto: cmp.Or(vf.Proto, definition.Proto),
		MinTxRate: cmp.Or(vf.MinTxRate, definition.MinTxRate), MaxTxRate: cmp.Or(vf.MaxTxRate, definition.MaxTxRate),
		QoS: cmp.Or(vf.QoS, definition.QoS),
	}
	return both, both.checkRates()
}

// CheckVLAN refuses settings of a VLAN tag in a network without a VLAN.
func (vf VF) CheckVLAN(vlan uint32) error {
	if vlan == 0 && (ptr.Deref(vf.QoS, 0) != 0 || vf.Proto != "") {
		return fmt.Errorf("%q and %q need a VLAN: set vlan of the network, or remove them", VFQoS, VFProto)
	}
	return nil
}
