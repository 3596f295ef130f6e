// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// Settings that forwarding needs, relative to hostdev.SettingsRoot.
const (
	forward4 = "ipv4/ip_forward"
	forward6 = "ipv6/conf/all/forwarding"
)

// keep reports whether the original value of a setting is stored: not for Alioth's own
// devices, which are deleted with their settings.
type keep bool

const (
	remember keep = true
	forget   keep = false
)

// settings changes kernel settings and stores their original values in a file, so that a
// later process can restore them.
type settings struct {
	file, root string
}

func (s *settings) hasIPv6() bool {
	_, err := os.Stat(filepath.Join(s.root, "ipv6"))
	return err == nil
}

func (s *settings) get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return "", fmt.Errorf("read kernel setting: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// set writes a value to a setting that has a different one, and reports whether it did. The
// original goes to the file before the change. A missing setting is not an error: its device
// has gone.
func (s *settings) set(name, value string, original keep) (changed bool, err error) {
	have, err := s.get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || have == value {
		return false, err
	}
	if original == remember {
		if err := s.note(name, have); err != nil {
			return false, err
		}
	}
	err = os.WriteFile(filepath.Join(s.root, name), []byte(value), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("change kernel setting to %s: %w", value, err)
	}
	return true, nil
}

// set changes a setting, for good.
func (h *Host) set(name, value string, original keep) error {
	changed, err := h.sysctls.set(name, value, original)
	if changed {
		h.note(RepairSetting, "setting net.%s", strings.ReplaceAll(name, "/", "."))
	}
	return err
}

// setOn changes a setting of one of Alioth's devices.
func (h *Host) setOn(device string, family ipfamily.Family, name, value string) error {
	path, err := hostdev.SettingPath(family, device, name)
	if err != nil {
		return err
	}
	return h.set(path, value, forget)
}

// settle gives one of Alioth's devices the settings of all of them.
func (h *Host) settle(device string) error {
	for _, s := range hostdev.Settings {
		if err := h.setOn(device, s.Family, s.Name, strconv.Itoa(s.Value)); err != nil {
			return err
		}
	}
	return nil
}

// Deviations returns the settings of a device of Alioth that differ from hostdev.Settings,
// with the values that they have, by their name below /proc/sys/net.
func Deviations(device string) (map[string]string, error) {
	s := &settings{root: hostdev.SettingsRoot}
	var found map[string]string
	for _, want := range hostdev.Settings {
		name, err := hostdev.SettingPath(want.Family, device, want.Name)
		if err != nil {
			return nil, err
		}
		have, err := s.get(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && have == strconv.Itoa(want.Value) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found == nil {
			found = map[string]string{}
		}
		found[name] = have
	}
	return found, nil
}

// UplinkDeviations returns the settings of a device with an address of the node whose value in
// effect differs from hostdev.UplinkSettings, by their name below /proc/sys/net.
func UplinkDeviations(device string) (map[string]string, error) {
	s := &settings{root: hostdev.SettingsRoot}
	found := map[string]string{}
	for _, want := range hostdev.UplinkSettings {
		name, err := hostdev.SettingPath(want.Family, device, want.Name)
		if err != nil {
			return nil, err
		}
		paths := []string{name}
		if want.Both {
			paths = append(paths, hostdev.EveryPath(want.Family, want.Name))
		}
		on, err := s.allOn(paths)
		if errors.Is(err, fs.ErrNotExist) || err == nil && on == want.On {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[name] = map[bool]string{true: "on", false: "off"}[on]
	}
	return found, nil
}

// allOn reports whether each of some settings has a value above 0.
func (s *settings) allOn(names []string) (bool, error) {
	for _, name := range names {
		text, err := s.get(name)
		if err != nil {
			return false, err
		}
		value, err := strconv.Atoi(text)
		if err != nil {
			return false, fmt.Errorf("read kernel setting %s: %w", name, err)
		}
		if value <= 0 {
			return false, nil
		}
	}
	return true, nil
}

// originals reads the file; without one, nothing was changed yet.
func (s *settings) originals() (map[string]string, error) {
	text, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read original kernel settings: %w", err)
	}
	known := map[string]string{}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, fmt.Errorf("read original kernel settings in %s (delete the file to forget them): %w", s.file, err)
	}
	return known, nil
}

// note stores the first value of a setting: a later one may be Alioth's.
func (s *settings) note(name, value string) error {
	known, err := s.originals()
	if err != nil {
		return err
	}
	if _, ok := known[name]; ok {
		return nil
	}
	known[name] = value
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return fmt.Errorf("encode original kernel settings: %w", err)
	}
	next := s.file + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write original kernel settings: %w", err)
	}
	if err := os.Rename(next, s.file); err != nil {
		return fmt.Errorf("write original kernel settings: %w", err)
	}
	return nil
}

// restore restores all original values, the global ones first, because a write of these
// changes the values of the devices.
func (s *settings) restore() error {
	known, err := s.originals()
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range slices.SortedFunc(maps.Keys(known), globalFirst) {
		err := os.WriteFile(filepath.Join(s.root, name), []byte(known[name]), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("restore kernel setting: %w", err))
		}
	}
	if len(failures) > 0 {
		return errors.Join(failures...)
	}
	if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove original kernel settings: %w", err)
	}
	return nil
}

// globalFirst orders the names of settings.
func globalFirst(a, b string) int {
	switch {
	case global(a) == global(b):
		return strings.Compare(a, b)
	case global(a):
		return -1
	}
	return 1
}

func global(name string) bool { return name == forward4 || name == forward6 }

// applyForwarding enables forwarding. For IPv6 the kernel has one setting that also
// disables router advertisements on every device; devices that accepted them continue to
// do so (value 2).
func (h *Host) applyForwarding() error {
	if err := h.set(forward4, "1", remember); err != nil {
		return err
	}
	if !h.sysctls.hasIPv6() {
		return nil
	}
	if err := h.keepAdvertisements(); err != nil {
		return err
	}
	return h.set(forward6, "1", remember)
}

// keepAdvertisements does nothing on a host that forwarded before Alioth was installed:
// there, value 1 means that the device does not accept router advertisements.
func (h *Host) keepAdvertisements() error {
	now, err := h.sysctls.get(forward6)
	if err != nil {
		return err
	}
	known, err := h.sysctls.originals()
	if err != nil {
		return err
	}
	if _, changed := known[forward6]; now != "0" && !changed {
		return nil
	}
	devices, err := os.ReadDir(filepath.Join(h.sysctls.root, "ipv6", "conf"))
	if err != nil {
		return fmt.Errorf("list devices with IPv6: %w", err)
	}
	for _, device := range devices {
		if err := h.keepAdvertisementsOf(device.Name()); err != nil {
			return err
		}
	}
	return nil
}

// keepAdvertisementsOf lets a device of others accept router advertisements with
// forwarding, if it accepts them without. The device is a folder of settings, so its name
// leads nowhere else; the folder "default" is for devices to come.
func (h *Host) keepAdvertisementsOf(device string) error {
	if hostdev.Managed(device) || device == "all" || device == "lo" {
		return nil
	}
	setting := filepath.Join("ipv6", "conf", device, "accept_ra")
	if have, _ := h.sysctls.get(setting); have != "1" {
		return nil // the device has gone, or does not accept them
	}
	// The device is new, so the change does not count as a repair.
	_, err := h.sysctls.set(setting, "2", remember)
	return err
}
