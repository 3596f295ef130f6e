// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// settings has the settings that a physical function enforces for one of its virtual functions,
// as the kernel reports them (IFLA_VFINFO_LIST of rtnetlink(7)).
type settings struct {
	MAC  net.HardwareAddr `json:"mac"`
	VLAN int              `json:"vlan"`
	QoS  int              `json:"qos"`
	// Proto is the EtherType of the tag; it has no effect without a VLAN.
	Proto      int  `json:"proto"`
	SpoofCheck bool `json:"spoofCheck"`
	// Trust is 0, 1, or unknown.
	Trust uint32 `json:"trust"`
	// LinkState is 0 for auto, 1 for enable, 2 for disable.
	LinkState uint32 `json:"linkState"`
	// MinTxRate and MaxTxRate are in Mbit/s, 0 for no limit.
	MinTxRate uint32 `json:"minTxRate"`
	MaxTxRate uint32 `json:"maxTxRate"`
}

// unknown is the kernel's value for a setting that the driver does not have.
const unknown = ^uint32(0)

// linkStates are the kernel's numbers (IFLA_VF_LINK_STATE_AUTO and so on).
var linkStates = map[string]uint32{"auto": 0, "enable": 1, "disable": 2}

// protocols are the EtherTypes of tags; "" is the default.
var protocols = map[string]int{"": unix.ETH_P_8021Q, "802.1q": unix.ETH_P_8021Q, "802.1ad": unix.ETH_P_8021AD}

// settingsOf returns the settings of one VF, and false if the physical function does not have it.
func settingsOf(pf netlink.Link, index int) (settings, bool) {
	for _, vf := range pf.Attrs().Vfs {
		if vf.ID == index {
			return settings{
				MAC: bytes.Clone(vf.Mac), VLAN: vf.Vlan, QoS: vf.Qos, Proto: vf.VlanProto, SpoofCheck: vf.Spoofchk, Trust: vf.Trust,
				LinkState: vf.LinkState, MinTxRate: vf.MinTxRate, MaxTxRate: vf.MaxTxRate,
			}, true
		}
	}
	return settings{}, false
}

// wanted returns the settings of an interface: undetermined settings stay as they are.
func wanted(now settings, spec ifdriver.Spec) settings {
	want, vf := now, spec.Settings()
	want.MAC, want.VLAN, want.QoS, want.Proto = spec.MAC, int(spec.VLAN), vf.Priority(), protocols[vf.Proto]
	want.SpoofCheck = vf.ChecksSource()
	switch {
	case vf.IsTrusted():
		want.Trust = 1
	case now.Trust != unknown:
		want.Trust = 0
	}
	if vf.LinkState != "" {
		want.LinkState = linkStates[vf.LinkState]
	}
	if vf.MinTxRate != nil {
		want.MinTxRate = uint32(*vf.MinTxRate)
	}
	if vf.MaxTxRate != nil {
		want.MaxTxRate = uint32(*vf.MaxTxRate)
	}
	return want
}

// step is one request to a physical function.
type step struct {
	// setting names the setting, in the words of users.
	setting string
	do      func(pf, settings) error
}

// pf is a physical function. It makes the settings of one VF.
type pf interface {
	setVLAN(vlan, qos, proto int) error
	setMAC(mac net.HardwareAddr) error
	setRate(lowest, highest uint32) error
	setSpoofCheck(on bool) error
	setTrust(on bool) error
	setLinkState(state uint32) error
}

// differences returns the requests that lead from one state to another. Untagged VFs have no
// sort of tag.
func differences(now, want settings) (steps []step) {
	add := func(differs bool, setting string, do func(pf, settings) error) {
		if differs {
			steps = append(steps, step{setting, do})
		}
	}
	tag := now.VLAN != want.VLAN || now.QoS != want.QoS || want.VLAN != 0 && now.Proto != want.Proto
	add(
		tag,
		fmt.Sprintf("vlan %d, vlanQoS %d, vlanProto %#x", want.VLAN, want.QoS, want.Proto),
		func(p pf, s settings) error { return p.setVLAN(s.VLAN, s.QoS, s.Proto) },
	)
	add(!bytes.Equal(now.MAC, want.MAC), "mac "+want.MAC.String(), func(p pf, s settings) error { return p.setMAC(s.MAC) })
	add(
		now.MinTxRate != want.MinTxRate || now.MaxTxRate != want.MaxTxRate,
		fmt.Sprintf("min_tx_rate %d, max_tx_rate %d", want.MinTxRate, want.MaxTxRate),
		func(p pf, s settings) error { return p.setRate(s.MinTxRate, s.MaxTxRate) },
	)
	add(
		now.SpoofCheck != want.SpoofCheck,
		"spoofchk "+onOff(want.SpoofCheck),
		func(p pf, s settings) error { return p.setSpoofCheck(s.SpoofCheck) },
	)
	add(
		now.Trust != want.Trust,
		"trust "+onOff(want.Trust == 1),
		func(p pf, s settings) error { return p.setTrust(s.Trust == 1) },
	)
	add(
		now.LinkState != want.LinkState,
		fmt.Sprintf("link_state %s", stateName(want.LinkState)),
		func(p pf, s settings) error { return p.setLinkState(s.LinkState) },
	)
	return steps
}

// firm returns the requests for an interface. Its address and the check of the address keep
// it from speaking for others, so they are made even if they seem to be there: a driver
// without the check reports it as on, and an address that the VF has chosen as its own.
func firm(now, want settings) []step {
	steps := differences(now, want)
	has := func(setting string) bool {
		for _, s := range steps {
			if s.setting == setting {
				return true
			}
		}
		return false
	}
	if name := "mac " + want.MAC.String(); !has(name) {
		steps = append(steps, step{name, func(p pf, s settings) error { return p.setMAC(s.MAC) }})
	}
	if name := "spoofchk " + onOff(true); want.SpoofCheck && !has(name) {
		steps = append(steps, step{name, func(p pf, s settings) error { return p.setSpoofCheck(true) }})
	}
	return steps
}

// apply makes requests in their order, up to the first that fails. Its error names the
// setting.
func apply(p pf, want settings, steps []step) error {
	for _, s := range steps {
		err := s.do(p, want)
		if errors.Is(err, unix.EOPNOTSUPP) && s.setting == "spoofchk off" {
			continue // a device without the check reports it as on
		}
		if err != nil {
			return fmt.Errorf(
				"the physical function can't set %s: %w: remove the setting, use another value, or another device",
				s.setting,
				err,
			)
		}
	}
	return nil
}

// restore makes all requests that lead back to an earlier state, and returns all errors.
func restore(p pf, now, saved settings) error {
	var errs []error
	for _, s := range differences(now, saved) {
		if err := s.do(p, saved); err != nil {
			errs = append(errs, fmt.Errorf("set %s again: %w", s.setting, err))
		}
	}
	return errors.Join(errs...)
}

// compare returns the first wrong setting of a VF, "" for none. It ignores settings that a driver
// does not report.
func compare(now, want settings) string {
	for _, s := range differences(now, want) {
		if s.setting != "spoofchk off" {
			return s.setting
		}
	}
	return ""
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func stateName(state uint32) string {
	for name, number := range linkStates {
		if number == state {
			return name
		}
	}
	return fmt.Sprint(state)
}

// byNetlink is a physical function in the namespace of a handle.
type byNetlink struct {
	h     *netlink.Handle
	link  netlink.Link
	index int
}

func (p byNetlink) setVLAN(vlan, qos, proto int) error {
	if vlan == 0 {
		proto = unix.ETH_P_8021Q // the kernel wants it without a tag
	}
	return p.h.LinkSetVfVlanQosProto(p.link, p.index, vlan, qos, proto)
}

func (p byNetlink) setMAC(mac net.HardwareAddr) error {
	return p.h.LinkSetVfHardwareAddr(p.link, p.index, mac)
}

func (p byNetlink) setRate(lowest, highest uint32) error {
	return p.h.LinkSetVfRate(p.link, p.index, int(lowest), int(highest))
}

func (p byNetlink) setSpoofCheck(on bool) error { return p.h.LinkSetVfSpoofchk(p.link, p.index, on) }

func (p byNetlink) setTrust(on bool) error { return p.h.LinkSetVfTrust(p.link, p.index, on) }

func (p byNetlink) setLinkState(state uint32) error {
	return p.h.LinkSetVfState(p.link, p.index, state)
}
