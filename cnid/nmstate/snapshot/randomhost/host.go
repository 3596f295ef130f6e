// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package randomhost makes network namespaces that are furnished at random with iproute2, for
// tests that change them and lead them back.
package randomhost

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/system/attribute"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// Host is a network namespace that tests change with iproute2.
type Host struct {
	t     testing.TB
	Space *netnstest.Namespace
	*kernel.Kernel
}

// New returns a host without devices.
func New(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, Space: netnstest.New(t)}
	h.Space.Do(t, func() (err error) {
		h.Kernel, err = kernel.Open()
		return err
	})
	t.Cleanup(h.Close)
	return h
}

// Run runs commands, one a line.
func (h *Host) Run(lines string) {
	h.t.Helper()
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			if out, err := h.Try(line); err != nil {
				h.t.Fatalf("%s: %v: %s", line, err, out)
			}
		}
	}
}

// Try runs a command, and returns its output.
func (h *Host) Try(line string) (out string, err error) {
	words := strings.Fields(line)
	h.Space.Do(h.t, func() error {
		text, failure := exec.CommandContext(h.t.Context(), words[0], words[1:]...).CombinedOutput()
		out, err = string(text), failure
		return nil
	})
	return out, err
}

// Settled waits until the kernel has tried the addresses of all devices that are ready, and
// returns what Shown does. A route has no source address that is not tried.
func (h *Host) Settled() Look {
	h.t.Helper()
	waits.Until(h.t, time.Minute, "the kernel has tried all addresses", func() error {
		ready := map[uint32]bool{}
		for _, m := range h.all(unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_UNSPEC)) {
			const is = unix.IFF_UP | unix.IFF_LOWER_UP
			ready[binary.NativeEndian.Uint32(m[4:])] = binary.NativeEndian.Uint32(m[8:])&is == is
		}
		for _, m := range h.addresses() {
			if index := binary.NativeEndian.Uint32(m[4:]); ready[index] && isTentative(m) {
				return fmt.Errorf("device %d has one that is not tried", index)
			}
		}
		return nil
	})
	return h.Shown()
}

func (h *Host) all(kind int, data nl.NetlinkRequestData) [][]byte {
	h.t.Helper()
	list, err := h.Dump(h.t.Context(), kind, data)
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// addresses returns messages with the addresses of IPv6.
func (h *Host) addresses() [][]byte { return h.all(unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_INET6)) }

func isTentative(address []byte) bool {
	return attribute.List(address[unix.SizeofIfAddrmsg:]).Value(unix.IFA_FLAGS)&unix.IFA_F_TENTATIVE != 0
}

// Play runs a stage. What makes no sense for the host is refused, and left out.
func (h *Host) Play(s Stage) {
	h.t.Helper()
	h.Space.Do(h.t, func() error {
		h.batch("ip", s.ip)
		h.batch("bridge", s.bridge)
		for _, setting := range s.settings {
			_ = set(setting) // of a device that is not there
		}
		h.batch("tc", s.tc)
		return nil
	})
}

func (h *Host) batch(program string, lines []string) {
	if len(lines) == 0 {
		return
	}
	command := exec.CommandContext(h.t.Context(), program, "-force", "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	_ = command.Run() // refused commands
}

// setting is one below /proc/sys/net.
type setting struct{ path, value string }

func set(s setting) error {
	return os.WriteFile(filepath.Join(hostdev.SettingsRoot, s.path), []byte(s.value), 0)
}
