// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package randomhost makes network namespaces that are furnished at random with iproute2, for
// tests that change them and lead them back.
package randomhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/netns/netnstest"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/test/waits"
)

// Host is a network namespace that tests change with iproute2.
type Host struct {
	t     testing.TB
	Space *netnstest.Namespace
	*kernel.Kernel
}

// New returns a host with three pairs, whose first ends have the names Devices.
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

// volatile are the fields of what iproute2 shows that change by themselves.
const volatile = " operstate expires tentative age hello_timer tcn_timer topology_change_timer gc_timer root_id bridge_id root_port " +
	"state no id designated_port designated_cost hold_timer message_age_timer forward_delay_timer promiscuity allmulti qdisc flags " +
	"multicast_querier_state tso_max_size topology_change topology_change_detected used confirmed updated " +
	"ad_actor_oper_port_state ad_actor_oper_port_state_str ad_partner_oper_port_state ad_partner_oper_port_state_str ad_aggregator_id "

// Shown is what iproute2 shows of a host, with the settings of its devices, without what
// changes by itself.
func (h *Host) Shown() string {
	h.t.Helper()
	var all strings.Builder
	for _, command := range []string{
		"ip -d -j link show", "ip -d -j addr show", "ip -d -4 -j route show table all", "ip -d -6 -j route show table all",
		"ip -4 -d -j rule show", "ip -6 -d -j rule show", "ip -d -j neigh show nud permanent", "ip -j neigh show proxy",
		"bridge -j vlan show", "ip -d -j nexthop show",
	} {
		text, err := json.MarshalIndent(arranged(command, settled(h.asked(command))), "", " ")
		if err != nil {
			h.t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", command, text)
	}
	for _, device := range Devices() {
		settings, err := h.Settings(device)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, path := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(&all, "%s %s\n", path, settings[path])
		}
	}
	return all.String()
}

// asked returns the answer of a command.
func (h *Host) asked(command string) (value any) {
	h.t.Helper()
	out, err := h.Try(command)
	if err == nil && strings.TrimSpace(out) != "" {
		err = json.Unmarshal([]byte(out), &value)
	}
	if err != nil {
		h.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return value
}

// arranged removes routes that follow from addresses, and orders lists whose order means
// nothing: it is the order in which entries were made.
func arranged(command string, value any) any {
	list, ok := value.([]any)
	if ok && strings.Contains(command, " route ") {
		list = slices.DeleteFunc(list, isDerived)
	}
	if ok && (strings.Contains(command, " -6 ") || strings.Contains(command, " neigh ") || strings.Contains(command, "bridge")) {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if ok {
		return list
	}
	return value
}

// isDerived reports whether a route follows from an address. The kernel makes it, for IPv6
// once the address was on a device that is up.
func isDerived(value any) bool {
	route, ok := value.(map[string]any)
	to, _ := route["dst"].(string)
	return ok && route["protocol"] == "kernel" && (route["table"] == "local" || strings.HasPrefix(to, "fe80::"))
}

// isLinkLocal reports whether the kernel made an address when a device was ready first, as
// a change may make it.
func isLinkLocal(value any) bool {
	address, ok := value.(map[string]any)
	ip, _ := address["local"].(string)
	return ok && strings.HasPrefix(ip, "fe80::") // commands add none
}

// settled removes counters, ages and states.
func settled(value any) any {
	switch v := value.(type) {
	case []any:
		v = slices.DeleteFunc(v, isLinkLocal)
		for n, one := range v {
			v[n] = settled(one)
		}
		return v
	case map[string]any:
		maps.DeleteFunc(v, func(key string, _ any) bool { return strings.Contains(volatile, " "+key+" ") })
		for key, one := range v {
			v[key] = settled(one)
		}
		for _, key := range []string{"valid_life_time", "preferred_life_time"} {
			if life, ok := v[key].(float64); ok && life < 1<<32-1 {
				v[key] = "limited"
			}
		}
		return v
	default:
		return value
	}
}

// Is waits until a host is as it was: the kernel makes some routes of an address later.
func (h *Host) Is(before string) {
	h.t.Helper()
	waits.Until(h.t, 10*time.Second, "the host is as it was", func() error {
		if diff := lines(before, h.Shown()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// Settled waits until the kernel has made what follows from addresses and devices, and returns
// what Shown does.
func (h *Host) Settled() string {
	h.t.Helper()
	waits.Until(h.t, 10*time.Second, "the kernel has the routes of all addresses", func() error {
		devices, err := h.Try("ip -6 -o addr show up")
		if err != nil {
			return errors.New(devices)
		}
		local, err := h.Try("ip -6 route show table all type local")
		if err != nil {
			return errors.New(local)
		}
		for line := range strings.Lines(devices) {
			words := strings.Fields(line)
			ip, _, _ := strings.Cut(words[3], "/")
			if !strings.Contains(local, "local "+ip+" dev "+words[1]) && h.isReady(words[1]) {
				return fmt.Errorf("%s of %s has none", ip, words[1])
			}
		}
		return nil
	})
	return h.Shown()
}

// isReady reports whether a device has a carrier: without one IPv6 waits.
func (h *Host) isReady(device string) bool {
	out, err := h.Try("ip -o link show dev " + device)
	return err == nil && strings.Contains(out, "LOWER_UP")
}

// lines returns the lines that differ, in order.
func lines(before, now string) string {
	return cmp.Diff(strings.Split(before, "\n"), strings.Split(now, "\n"))
}

// Play runs a stage. What makes no sense for the host is refused, and left out.
func (h *Host) Play(s Stage) {
	h.t.Helper()
	h.Space.Do(h.t, func() error {
		h.batch("ip", s.ip)
		h.batch("bridge", s.bridge)
		for _, setting := range s.sysctl {
			_ = exec.CommandContext(h.t.Context(), "sysctl", "-qw", setting).Run()
		}
		return nil
	})
}

func (h *Host) batch(program string, lines []string) {
	command := exec.CommandContext(h.t.Context(), program, "-force", "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	_ = command.Run() // refused commands
}
