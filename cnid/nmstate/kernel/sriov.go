// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// Files of a physical function in its folder of sysfs
// (Documentation/ABI/testing/sysfs-bus-pci of Linux).
const (
	limitFile     = "sriov_totalvfs"
	countFile     = "sriov_numvfs"
	autoprobeFile = "sriov_drivers_autoprobe"
)

// folder is that of the hardware of a device, "" if it has none. The kernel tells the
// hardware by name, for sysfs may show the devices of another network namespace.
func folder(l link) string {
	name, bus := l.Text(unix.IFLA_PARENT_DEV_NAME), l.Text(unix.IFLA_PARENT_DEV_BUS_NAME)
	if name == "" || bus == "" {
		return ""
	}
	return filepath.Join("/sys/bus", bus, "devices", name)
}

// showEthernet returns what hardware has, nil for nothing.
func showEthernet(l link) *document.EthernetConfig {
	at := folder(l)
	if at == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(at, limitFile)); err != nil {
		return nil
	}
	shown := &document.SRIOV{VFs: showVFs(l)}
	if count, err := readNumber(filepath.Join(at, countFile)); err == nil {
		shown.TotalVFs = &count
	}
	if probes, err := readNumber(filepath.Join(at, autoprobeFile)); err == nil {
		shown.DriversAutoprobe = new(probes != 0)
	}
	return &document.EthernetConfig{SRIOV: shown}
}

// showVFs returns the virtual functions of a device by their numbers.
func showVFs(l link) []document.VF {
	list := []document.VF{}
	for kind, info := range l.Get(unix.IFLA_VFINFO_LIST).All() {
		if kind == nl.IFLA_VF_INFO {
			list = append(list, showVF(info))
		}
	}
	slices.SortFunc(list, func(a, b document.VF) int { return a.ID - b.ID })
	return list
}

func readNumber(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// wordsOf returns the numbers of 32 bits of an attribute of a virtual function. The first
// one is always the function's.
func wordsOf(info attributes, kind uint16, count int) ([]uint32, bool) {
	const width = 4
	content := info.Get(kind)
	if len(content) < count*width {
		return nil, false
	}
	list := make([]uint32, count)
	for n := range list {
		list[n] = binary.NativeEndian.Uint32(content[n*width:])
	}
	return list, true
}

func showVF(info attributes) document.VF {
	var vf document.VF
	// Numbers at the ends of structs ifla_vf_* of include/uapi/linux/if_link.h.
	const unset = 1<<32 - 1
	if mac := info.Get(nl.IFLA_VF_MAC); len(mac) >= 10 {
		vf.ID, vf.MACAddress = int(binary.NativeEndian.Uint32(mac)), strings.ToUpper(net.HardwareAddr(mac[4:10]).String())
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_VLAN, 3); ok {
		vf.VLANID, vf.QoS = new(int(w[1])), new(int(w[2]))
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_SPOOFCHK, 2); ok && w[1] != unset {
		vf.SpoofCheck = new(w[1] != 0)
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_TRUST, 2); ok && w[1] != unset {
		vf.Trust = new(w[1] != 0)
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_RATE, 3); ok {
		vf.MinTxRate, vf.MaxTxRate = new(int(w[1])), new(int(w[2]))
	}
	vf.VLANProto = vfProtocol(info)
	return vf
}

// vfProtocol is the protocol of the VLAN of a virtual function.
func vfProtocol(info attributes) string {
	const entry, at = 1, 12 // IFLA_VF_VLAN_INFO, and its vlan_proto
	if list := info.Get(nl.IFLA_VF_VLAN_LIST).Get(entry); len(list) >= at+2 {
		return protocolName(binary.BigEndian.Uint16(list[at:]))
	}
	return ""
}

// patience limits how long virtual functions may take to appear.
const patience = 30 * time.Second

func (k *Kernel) setVFs(ctx context.Context, step plan.SetVFs) error {
	l, err := k.link(ctx, step.Name)
	if err != nil {
		return err
	}
	at := folder(l)
	if _, err := os.Stat(filepath.Join(at, limitFile)); at == "" || err != nil {
		return fmt.Errorf("ethernet.sr-iov: the hardware of %s has no virtual functions: %w", step.Name, errors.ErrUnsupported)
	}
	if probe := step.SRIOV.DriversAutoprobe; probe != nil {
		if err := writeNumber(filepath.Join(at, autoprobeFile), int(bit(*probe))); err != nil {
			return fmt.Errorf("ethernet.sr-iov.drivers-autoprobe: %w", err)
		}
	}
	if count := step.SRIOV.TotalVFs; count != nil {
		if err := k.countVFs(ctx, step.Name, at, *count); err != nil {
			return fmt.Errorf("ethernet.sr-iov.total-vfs: %w", err)
		}
	}
	return k.setEachVF(ctx, step)
}

// setEachVF applies settings of single functions.
func (k *Kernel) setEachVF(ctx context.Context, step plan.SetVFs) error {
	l, err := k.link(ctx, step.Name)
	if err != nil {
		return err
	}
	now := map[int]document.VF{}
	for _, vf := range showVFs(l) {
		now[vf.ID] = vf
	}
	for n, vf := range step.SRIOV.VFs {
		is, ok := now[vf.ID]
		if !ok {
			return fmt.Errorf("ethernet.sr-iov.vfs[%d].id: %s has no function %d: raise total-vfs", n, step.Name, vf.ID)
		}
		if err := k.setVF(int(l.index), different(is, vf)); err != nil {
			return fmt.Errorf("ethernet.sr-iov.vfs[%d].%w", n, err)
		}
	}
	return nil
}

// different is what a function shall have and has not. Drivers refuse settings that they
// lack even with the values that they show of them. What is set in one request stays
// complete.
func different(now, want document.VF) document.VF {
	if strings.EqualFold(want.MACAddress, now.MACAddress) {
		want.MACAddress = ""
	}
	if same(want.VLANID, now.VLANID) && same(want.QoS, now.QoS) && (want.VLANProto == "" || want.VLANProto == now.VLANProto) {
		want.VLANID, want.QoS, want.VLANProto = nil, nil, ""
	} else {
		want.VLANID, want.QoS, want.VLANProto = cmp.Or(want.VLANID, now.VLANID), cmp.Or(want.QoS, now.QoS), cmp.Or(want.VLANProto, now.VLANProto)
	}
	if same(want.MinTxRate, now.MinTxRate) && same(want.MaxTxRate, now.MaxTxRate) {
		want.MinTxRate, want.MaxTxRate = nil, nil
	} else {
		want.MinTxRate, want.MaxTxRate = cmp.Or(want.MinTxRate, now.MinTxRate), cmp.Or(want.MaxTxRate, now.MaxTxRate)
	}
	if same(want.SpoofCheck, now.SpoofCheck) {
		want.SpoofCheck = nil
	}
	if same(want.Trust, now.Trust) {
		want.Trust = nil
	}
	return want
}

// same reports whether a value is there, or none is wanted.
func same[T comparable](want, now *T) bool { return want == nil || now != nil && *want == *now }

// countVFs sets how many virtual functions there are. The kernel does not go from one
// number to another one except by 0.
func (k *Kernel) countVFs(ctx context.Context, name, folder string, count int) error {
	path := filepath.Join(folder, countFile)
	now, err := readNumber(path)
	if err != nil || now == count {
		return err
	}
	if now != 0 {
		if err := writeNumber(path, 0); err != nil {
			return err
		}
	}
	if count != 0 {
		if err := writeNumber(path, count); err != nil {
			return err
		}
	}
	return k.awaitVFs(ctx, name, count)
}

// awaitVFs waits until a device has so many virtual functions.
func (k *Kernel) awaitVFs(ctx context.Context, name string, count int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const interval = 50 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		l, err := k.link(ctx, name)
		if err != nil && !errors.Is(err, errNoDevice) {
			return err
		}
		if err == nil && int(l.Value(unix.IFLA_NUM_VF)) == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d virtual functions did not appear: %w", count, ctx.Err())
		case <-tick.C:
		}
	}
}

func writeNumber(path string, number int) error {
	// The kernel made the file; another one would mean nothing.
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.Itoa(number))
	return errors.Join(err, file.Close())
}

// setVF applies settings of a virtual function.
func (k *Kernel) setVF(index int, vf document.VF) error {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	if vf.MACAddress != "" {
		mac, err := net.ParseMAC(vf.MACAddress)
		if err == nil {
			err = k.handle.LinkSetVfHardwareAddr(device, vf.ID, mac)
		}
		if err != nil {
			return fmt.Errorf("mac-address: %w", err)
		}
	}
	if vf.VLANID != nil || vf.QoS != nil || vf.VLANProto != "" {
		if err := k.handle.LinkSetVfVlanQosProto(device, vf.ID, orZero(vf.VLANID), orZero(vf.QoS), ethertype(vf.VLANProto)); err != nil {
			return fmt.Errorf("vlan-id: %w", err)
		}
	}
	if vf.MinTxRate != nil || vf.MaxTxRate != nil {
		if err := k.handle.LinkSetVfRate(device, vf.ID, orZero(vf.MinTxRate), orZero(vf.MaxTxRate)); err != nil {
			return fmt.Errorf("max-tx-rate: %w", err)
		}
	}
	return k.setVFTrust(device, vf)
}

// setVFTrust applies what a virtual function may do.
func (k *Kernel) setVFTrust(device netlink.Link, vf document.VF) error {
	if vf.SpoofCheck != nil {
		if err := k.handle.LinkSetVfSpoofchk(device, vf.ID, *vf.SpoofCheck); err != nil {
			return fmt.Errorf("spoof-check: %w", err)
		}
	}
	if vf.Trust != nil {
		if err := k.handle.LinkSetVfTrust(device, vf.ID, *vf.Trust); err != nil {
			return fmt.Errorf("trust: %w", err)
		}
	}
	return nil
}

func ethertype(protocol string) int {
	if protocol == document.Protocol8021AD {
		return unix.ETH_P_8021AD
	}
	return unix.ETH_P_8021Q
}

func orZero(value *int) int {
	if value == nil {
		return 0
	}
	return *value
}
