// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/test/waits"
)

// Look holds a line for each object of a host that iproute2 shows, and for each value of a device
// in /proc/sys/net. It leaves out the values that the kernel changes by itself.
type Look []string

// program is one that shows a host, with what its commands show.
type program struct {
	name  string
	parts []part
}

type part struct{ object, command string }

func programs() []program {
	return []program{
		{
			"ip -d -j",
			[]part{
				{"device", "link show"},
				{"address", "addr show"},
				{"neighbour", "neigh show nud permanent"},
				{"proxy", "neigh show proxy"},
				{"next hop", "nexthop show"},
			},
		},
		{"ip -4 -d -j", []part{{"route", "route show table all"}, {"rule", "rule show"}}},
		{"ip -6 -d -j", []part{{"route of IPv6", "route show table all"}, {"rule of IPv6", "rule show"}}},
		{"bridge -j", []part{{"VLANs", "vlan show"}, {"entry", "fdb show"}}},
		{"tc -d -j", []part{{"queueing discipline", "qdisc show"}}},
	}
}

// Shown returns the present look of a host.
func (h *Host) Shown() (all Look) {
	h.t.Helper()
	for _, p := range programs() {
		for n, list := range h.asked(p) {
			all = append(all, linesOf(p.parts[n].object, list)...)
		}
	}
	for _, device := range Devices() {
		settings, err := h.Settings(device)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, path := range slices.Sorted(maps.Keys(settings)) {
			all = append(all, fmt.Sprintf("%s %s", path, settings[path]))
		}
	}
	return all
}

// asked returns what each command of a program shows. They share one process: a look starts
// few of them.
func (h *Host) asked(p program) (lists [][]map[string]any) {
	h.t.Helper()
	var commands strings.Builder
	for _, part := range p.parts {
		fmt.Fprintln(&commands, part.command)
	}
	words := strings.Fields(p.name + " -batch -")
	h.Space.Do(h.t, func() error {
		command := exec.CommandContext(h.t.Context(), words[0], words[1:]...)
		command.Stdin = strings.NewReader(commands.String())
		out, err := command.CombinedOutput()
		answers := json.NewDecoder(bytes.NewReader(out))
		for n := 0; n < len(p.parts) && err == nil; n++ {
			var list []map[string]any
			err = answers.Decode(&list)
			lists = append(lists, list)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", p.name, err, out)
		}
		return err
	})
	return lists
}

// linesOf returns the lines of some objects. It sorts lists whose order means nothing: their
// order depends on the time when the entries were made.
func linesOf(object string, list []map[string]any) (lines []string) {
	for _, one := range list {
		switch name := fmt.Sprint(one["ifname"]); {
		case len(one) == 0: // what a command left out
		case object == "device":
			lines = append(lines, valuesOf(name, one)...)
		case object == "address":
			lines = append(lines, addressesOf(name, one)...)
		case !isDerived(object, one):
			lines = append(lines, object+" "+text(lasting(object, one)))
		}
	}
	if object != "device" && object != "address" && object != "route" && object != "rule" && object != "rule of IPv6" {
		slices.Sort(lines)
	}
	return lines
}

// valuesOf returns a line for each value of a device.
func valuesOf(name string, device map[string]any) (lines []string) {
	for path, value := range flat("", device) {
		if states.MatchString(path) {
			continue
		}
		if path == "flags" {
			value = without(value, "NO-CARRIER", "LOWER_UP", "LOWER_DOWN", "M-DOWN", "DORMANT")
		}
		lines = append(lines, fmt.Sprintf("device %s: %s %s", name, path, text(value)))
	}
	slices.Sort(lines)
	return lines
}

// states are the values of a device that no administrator sets.
var states = regexp.MustCompile(`^(` + strings.Join([]string{
	// They follow from the carrier. The command tc shows queueing disciplines.
	`operstate`, `qdisc`,
	// The kernel counts those on behalf of the devices above; the flags tell the settings.
	`promiscuity`, `allmulti`,
	// A bridge takes them from ports that it once had.
	`tso_max_size`, `tso_max_segs`,
	// Timers, elections and what a bridge learned. The part of bridge_id that is set is the priority.
	`linkinfo\.info_data\.(hello_timer|tcn_timer|topology_change_timer|gc_timer|bridge_id|root_id|root_port|root_path_cost|topology_change|topology_change_detected|fdb_n_learned|multicast_querier_state\..*)`,
	// The bridge chooses the numbers of ports when they are attached.
	`linkinfo\.info_slave_data\.(state|id|no|designated_port|designated_cost|bridge_id|root_id|hold_timer|message_age_timer|forward_delay_timer|topology_change_ack|config_pending)`,
	// A bond chooses the active port, and talks with its neighbour about aggregation.
	`linkinfo\.info_data\.(active_slave|ad_info\..*)`,
	`linkinfo\.info_slave_data\.(mii_status|link_failure_count|ad_(aggregator_id|actor_oper_port_state|partner_oper_port_state).*)`,
}, "|") + `)$`)

// flat yields the values of an object with their paths.
func flat(path string, value any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		object, ok := value.(map[string]any)
		if !ok {
			yield(path, value)
			return
		}
		for key, one := range object {
			for below, value := range flat(strings.TrimPrefix(path+"."+key, "."), one) {
				if !yield(below, value) {
					return
				}
			}
		}
	}
}

// addressesOf returns a line for each address of a device.
func addressesOf(name string, device map[string]any) (lines []string) {
	list, _ := device["addr_info"].([]any)
	for _, one := range list {
		address, ok := one.(map[string]any)
		if ip, _ := address["local"].(string); !ok || strings.HasPrefix(ip, "fe80::") {
			// The kernel makes it when a device is ready first, which a change may cause. Commands
			// add none.
			continue
		}
		delete(address, "tentative")
		for _, key := range []string{"valid_life_time", "preferred_life_time"} {
			if life, ok := address[key].(float64); ok && life < 1<<32-1 {
				address[key] = "limited"
			}
		}
		lines = append(lines, fmt.Sprintf("address %s: %s", name, text(address)))
	}
	return lines
}

// isDerived reports whether an object follows from others. The kernel makes the routes of an
// address, for IPv6 once the address was on a device that is up. It makes default queueing
// disciplines, which have no handle, and entries of bridges for the addresses of devices.
func isDerived(object string, one map[string]any) bool {
	switch object {
	case "route", "route of IPv6":
		to, _ := one["dst"].(string)
		return one["protocol"] == "kernel" && (one["table"] == "local" || strings.HasPrefix(to, "fe80::"))
	case "queueing discipline":
		return one["handle"] == "0:"
	case "entry":
		return one["state"] != "static" && one["dst"] == nil
	}
	return false
}

// lasting removes states from an object.
func lasting(object string, one map[string]any) map[string]any {
	switch object {
	case "route", "route of IPv6", "next hop":
		hops, _ := one["nexthops"].([]any)
		for _, hop := range append(hops, one) {
			if hop, ok := hop.(map[string]any); ok {
				hop["flags"] = without(hop["flags"], "dead", "linkdown", "unresolved", "offload", "rt_offload", "trap", "rt_trap")
			}
		}
		if one["expires"] != nil {
			one["expires"] = "limited"
		}
	case "queueing discipline":
		delete(one, "refcnt")
		if options, ok := one["options"].(map[string]any); ok {
			delete(options, "direct_packets_stat")
		}
	}
	return one
}

// without returns a list of words without some.
func without(value any, words ...string) any {
	list, _ := value.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(one any) bool { return slices.Contains(words, fmt.Sprint(one)) })
}

func text(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Is waits until a host is as it was: the kernel makes some routes of an address later.
func (h *Host) Is(before Look) {
	h.t.Helper()
	h.IsBeside(before, func(string) bool { return false })
}

// IsBeside is Is but for the lines of others.
func (h *Host) IsBeside(before Look, theirs func(line string) bool) {
	h.t.Helper()
	waits.Until(h.t, 10*time.Second, "the host is as it was", func() error {
		return before.differs(slices.DeleteFunc(h.Shown(), theirs))
	})
}

// differs returns an error with the lines that another look lacks, and those that it has
// beside. Its first line has the first of them: a run of all tests repeats little more.
func (l Look) differs(now Look) error {
	var lines []string
	for _, line := range l.except(now) {
		lines = append(lines, "- "+line)
	}
	for _, line := range now.except(l) {
		lines = append(lines, "+ "+line)
	}
	if lines == nil && !slices.Equal(l, now) {
		at := 0
		for l[at] == now[at] {
			at++
		}
		lines = []string{"- in another order: " + l[at], "+ in its place: " + now[at]}
	}
	if lines == nil {
		return nil
	}
	const first = 4
	return errors.New(strings.Join(lines[:min(first, len(lines))], " | ") + "\n" + strings.Join(lines, "\n"))
}

// except returns the lines that another look lacks. Equal lines count.
func (l Look) except(other Look) (lines []string) {
	count := map[string]int{}
	for _, line := range other {
		count[line]++
	}
	for _, line := range l {
		if count[line]--; count[line] < 0 {
			lines = append(lines, line)
		}
	}
	return lines
}
