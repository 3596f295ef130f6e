// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/ipamconf"
)

// Runtime has the values that plugins get in "runtimeConfig" where they have the
// capability (CNI conventions, section "Dynamic plugin specific fields"). Zero values
// are not passed.
type Runtime struct {
	// IPs are addresses, each with or without a prefix length.
	IPs []string `json:"ips,omitempty"`
	// MAC is an Ethernet address in the usual form.
	MAC          string        `json:"mac,omitempty"`
	PortMappings []PortMapping `json:"portMappings,omitempty"`
	Bandwidth    *Bandwidth    `json:"bandwidth,omitempty"`
	// GUID is an address of InfiniBand, 8 bytes with colons.
	GUID string `json:"infinibandGUID,omitempty"`
	// DeviceID is the device that the kubelet has allocated to the pod. The first plugin
	// gets it as the key "deviceID" too, with or without the capability.
	DeviceID string `json:"deviceID,omitempty"`
	// DeviceInfoFile is the path of a file about the device (device-info-spec 1.1.0).
	DeviceInfoFile string `json:"CNIDeviceInfoFile,omitempty"`
}

// PortMapping is a port of the node that leads to a port of the pod.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Bandwidth has rates in bits per second and bursts in bits; 0 for no limit.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate,omitempty"`
	IngressBurst uint64 `json:"ingressBurst,omitempty"`
	EgressRate   uint64 `json:"egressRate,omitempty"`
	EgressBurst  uint64 `json:"egressBurst,omitempty"`
}

// values returns the values by capability. asked are the capabilities of the values that the pod
// has asked for.
func (r Runtime) values() (values map[string]any, asked []string) {
	values = map[string]any{}
	if len(r.IPs) > 0 {
		values["ips"] = r.IPs
	}
	if r.MAC != "" {
		values["mac"] = r.MAC
	}
	if len(r.PortMappings) > 0 {
		values["portMappings"] = r.PortMappings
	}
	if r.Bandwidth != nil {
		values["bandwidth"] = r.Bandwidth
	}
	if r.GUID != "" {
		values["infinibandGUID"] = r.GUID
	}
	asked = slices.Sorted(maps.Keys(values))
	if r.DeviceID != "" {
		values["deviceID"] = r.DeviceID
	}
	if r.DeviceInfoFile != "" {
		values["CNIDeviceInfoFile"] = r.DeviceInfoFile
	}
	return values, asked
}

// Lacks says that no plugin has a capability, and how one gets it.
func Lacks(capability string) string {
	return fmt.Sprintf(
		"no plugin has the capability for it, which is \"capabilities\": {%q: true} of a plugin that supports it",
		capability,
	)
}

func (l *list) addRuntime(r Request) error {
	values, asked := r.Runtime.values()
	served := map[string]bool{}
	for i, p := range l.Plugins {
		var capabilities map[string]bool
		if raw, ok := p["capabilities"]; ok {
			if err := json.Unmarshal(raw, &capabilities); err != nil {
				return l.Wrong(l.Field(i, "capabilities"), "it is not an object of booleans", `write it as {"ips": true}`)
			}
		}
		passed := map[string]any{}
		for name, value := range values {
			if capabilities[name] {
				passed[name], served[name] = value, true
			}
		}
		if len(passed) > 0 {
			if err := p.Set("runtimeConfig", passed); err != nil {
				return l.Wrong(l.Field(i, "runtimeConfig"), err.Error(), "correct the pod's request")
			}
		}
	}
	l.unserved = slices.DeleteFunc(asked, func(name string) bool { return served[name] })
	if r.Runtime.DeviceID == "" {
		return nil
	}
	return l.Plugins[0].Set("deviceID", r.Runtime.DeviceID)
}

// addArgs merges the pod's arguments into "args.cni" of each plugin.
func (l *list) addArgs(r Request) error {
	for _, key := range slices.Sorted(maps.Keys(r.Args)) {
		if err := l.CheckValue(r.Args[key], cniconf.Join("cni-args", key)); err != nil {
			return err
		}
	}
	if len(r.Args) == 0 {
		return nil
	}
	for i, p := range l.Plugins {
		args, err := l.object(p, "args", l.Field(i, "args"))
		if err != nil {
			return err
		}
		cni, err := l.object(args, "cni", l.Field(i, "args.cni"))
		if err != nil {
			return err
		}
		maps.Copy(cni, r.Args)
		if err := args.Set("cni", cni); err != nil {
			return l.Wrong("cni-args", err.Error(), "correct the JSON")
		}
		if err := p.Set("args", args); err != nil {
			return l.Wrong("cni-args", err.Error(), "correct the JSON")
		}
	}
	return nil
}

// object returns the object of a key, an empty one where it is missing.
func (l *list) object(p cniconf.Plugin, key, field string) (cniconf.Plugin, error) {
	object := cniconf.Plugin{}
	if raw, ok := p[key]; ok {
		if err := json.Unmarshal(raw, &object); err != nil || object == nil {
			return nil, l.Wrong(field, "it is not an object", "correct it, so that the pod's arguments can be added")
		}
	}
	return object, nil
}

// removeIPAM removes the author's IPAM, which is then not checked either.
func (l *list) removeIPAM(r Request) error {
	if r.IPAM != nil {
		delete(l.Plugins[0], "ipam")
	}
	return nil
}

// addIPAM sets the IPAM of Alioth. Without an address the plugin has no IPAM, and no CHECK: the
// CHECK of the plugin bridge fails without an IPAM.
func (l *list) addIPAM(r Request) error {
	if r.IPAM == nil {
		return nil
	}
	if len(r.IPAM.Addresses) == 0 {
		l.DisableCheck = true
		return nil
	}
	conf := ipamconf.Config{Type: ipamconf.Type, Addresses: r.IPAM.Addresses, Routes: r.IPAM.Routes}
	return l.Plugins[0].Set("ipam", conf)
}
