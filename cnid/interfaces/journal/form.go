// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"net/netip"

	"github.com/alioth-net/alioth/api/netif"
)

// The file keeps the form that release 0.1 reads, so that a node can go back to that release. The
// form differs from netif.Config in routes and in the settings of a device.

// form is a record in the file. Its own fields hide the fields of plain with these names.
type form struct {
	plain

	MTU    int             `json:"mtu"`
	VLAN   uint32          `json:"vlan,omitempty"`
	VF     *DeviceSettings `json:"vf,omitempty"`
	Routes []formRoute     `json:"routes,omitempty"`
}

// plain is a Record without methods.
type plain Record

// formRoute is a netif.Route in the file.
type formRoute struct {
	Dst     netip.Prefix `json:"dst"`
	Gateway netip.Addr   `json:"gateway,omitzero"`
	Table   int          `json:"table,omitempty"`
}

// DeviceSettings has the settings of a device of a pool in the file: a netif.VF with its
// defaults, and the VLAN ID.
type DeviceSettings struct {
	VLAN       uint32 `json:"vlan,omitempty"`
	QoS        int    `json:"qos,omitempty"`
	Proto      string `json:"proto,omitempty"`
	SpoofCheck bool   `json:"spoofCheck,omitempty"`
	Trust      bool   `json:"trust,omitempty"`
	LinkState  string `json:"linkState,omitempty"`
	MinTxRate  *int   `json:"minTxRate,omitempty"`
	MaxTxRate  *int   `json:"maxTxRate,omitempty"`
}

// DeviceSettingsOf returns the settings of a device of a pool, nil for other interfaces.
func DeviceSettingsOf(c netif.Config) *DeviceSettings {
	if c.Pool == "" {
		return nil
	}
	vf := c.Settings()
	return &DeviceSettings{
		VLAN: c.VLAN, QoS: vf.Priority(), Proto: vf.Proto, SpoofCheck: vf.ChecksSource(), Trust: vf.IsTrusted(),
		LinkState: vf.LinkState, MinTxRate: vf.MinTxRate, MaxTxRate: vf.MaxTxRate,
	}
}

// VF returns the settings without the VLAN ID.
func (s *DeviceSettings) VF() *netif.VF {
	vf := &netif.VF{
		Proto: s.Proto, SpoofCheck: netif.OnOff(s.SpoofCheck), Trust: netif.OnOff(s.Trust),
		LinkState: s.LinkState, MinTxRate: s.MinTxRate, MaxTxRate: s.MaxTxRate,
	}
	if s.QoS != 0 {
		vf.QoS = &s.QoS
	}
	return vf
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	f := form{plain: plain(r), MTU: r.MTU, VLAN: r.VLAN}
	if f.VF = DeviceSettingsOf(r.Config); f.VF != nil {
		f.VLAN = 0
	}
	for _, route := range r.Routes {
		f.Routes = append(f.Routes, formRoute(route))
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Record) UnmarshalJSON(text []byte) error {
	var f form
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*r = Record(f.plain)
	r.MTU, r.VLAN, r.VF, r.Routes = f.MTU, f.VLAN, nil, nil
	if f.VF != nil {
		r.VLAN, r.VF = f.VF.VLAN, f.VF.VF()
	}
	for _, route := range f.Routes {
		r.Routes = append(r.Routes, netif.Route(route))
	}
	return nil
}
