// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// Files of a physical function in its folder of sysfs
// (Documentation/ABI/testing/sysfs-bus-pci of Linux).
const (
	limitFile     = "sriov_totalvfs"
	countFile     = "sriov_numvfs"
	autoprobeFile = "sriov_drivers_autoprobe"
)

// folder returns the folder of a device's hardware, "" for a virtual device. The kernel tells the
// hardware by name, because sysfs may show the devices of another network namespace.
func folder(l convert.Link) string {
	name, bus := l.Text(unix.IFLA_PARENT_DEV_NAME), l.Text(unix.IFLA_PARENT_DEV_BUS_NAME)
	if name == "" || bus == "" {
		return ""
	}
	return filepath.Join("/sys/bus", bus, "devices", name)
}

// showEthernet returns what hardware has, nil for nothing.
func showEthernet(l convert.Link) *document.EthernetConfig {
	at := folder(l)
	if at == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(at, limitFile)); err != nil {
		return nil
	}
	shown := &document.SRIOV{VFs: convert.VFs(l)}
	if count, err := readNumber(filepath.Join(at, countFile)); err == nil {
		shown.TotalVFs = &count
	}
	if probes, err := readNumber(filepath.Join(at, autoprobeFile)); err == nil {
		shown.DriversAutoprobe = new(probes != 0)
	}
	return &document.EthernetConfig{SRIOV: shown}
}

func readNumber(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
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
		return fmt.Errorf(
			"ethernet.sr-iov: the hardware of %s has no virtual functions: %w",
			step.Name,
			errors.ErrUnsupported,
		)
	}
	if probe := step.SRIOV.DriversAutoprobe; probe != nil {
		if err := writeNumber(filepath.Join(at, autoprobeFile), int(convert.Bit(*probe))); err != nil {
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
	for _, vf := range convert.VFs(l) {
		now[vf.ID] = vf
	}
	for n, vf := range step.SRIOV.VFs {
		is, ok := now[vf.ID]
		if !ok {
			return fmt.Errorf("ethernet.sr-iov.vfs[%d].id: %s has no function %d: raise total-vfs", n, step.Name, vf.ID)
		}
		if err := k.setVF(int(l.Index), convert.Different(is, vf)); err != nil {
			return fmt.Errorf("ethernet.sr-iov.vfs[%d].%w", n, err)
		}
	}
	return nil
}

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
		vlan, qos, protocol := orZero(vf.VLANID), orZero(vf.QoS), ethertype(vf.VLANProto)
		if err := k.handle.LinkSetVfVlanQosProto(device, vf.ID, vlan, qos, protocol); err != nil {
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
