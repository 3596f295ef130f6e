// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconf

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/cniconf"
)

// Plain has the values of a pod that its plugins get in CNI_ARGS, each "" for none. The CNI
// conventions deprecate CNI_ARGS, and Multus still fills it, whatever capabilities say.
type Plain struct {
	// IP has addresses, separated by commas, and MAC an Ethernet address.
	IP, MAC string
}

// Args returns the keys and values for CNI_ARGS.
func (p Plain) Args() (args [][2]string) {
	for _, one := range [][2]string{{"IP", p.IP}, {"MAC", p.MAC}} {
		if one[1] != "" {
			args = append(args, one)
		}
	}
	return args
}

// Fate says where the value of an unserved capability goes.
func (p Plain) Fate(capability string) string {
	switch {
	case capability == "ips" && p.IP != "":
		return "reaches the plugins as IP of CNI_ARGS alone"
	case capability == "mac" && p.MAC != "":
		return "reaches the plugins as MAC of CNI_ARGS alone"
	}
	return "is ignored"
}

// maxPlain is the longest value, in bytes.
const maxPlain = 256

// Plugins that read the keys of Plain. Others do not look there, and some fail.
var (
	// readsIPs are IPAM plugins that take any number of addresses with a prefix length, readsIP
	// are IPAM plugins that take one address.
	readsIPs = []string{"static"}
	readsIP  = []string{"host-local"}
	readsMAC = []string{"bridge", "macvlan", "sriov", "ovs", "tap", "tuning"}
)

// takePlain chooses the values that the plugins get in CNI_ARGS.
func (l *list) takePlain(r Request) error {
	ips := strings.Join(r.Runtime.IPs, ",")
	if r.Plain.IPs && slices.Contains(l.unserved, "ips") && len(ips) <= maxPlain && l.readsIPs(r.Runtime.IPs) {
		l.plain.IP = ips
	}
	reads := func(p cniconf.Plugin) bool { return slices.Contains(readsMAC, p.Kind()) }
	if r.Plain.MAC && slices.Contains(l.unserved, "mac") && slices.ContainsFunc(l.Plugins, reads) {
		l.plain.MAC = r.Runtime.MAC
	}
	return nil
}

// readsIPs reports whether the IPAM of the first plugin takes these addresses from CNI_ARGS.
func (l *list) readsIPs(ips []string) bool {
	var ipam struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(l.Plugins[0]["ipam"], &ipam); err != nil {
		return false
	}
	bare := slices.ContainsFunc(ips, func(ip string) bool { return !strings.Contains(ip, "/") })
	return slices.Contains(readsIPs, ipam.Type) && !bare || slices.Contains(readsIP, ipam.Type) && len(ips) == 1
}
