// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// withVFs makes a device of the model one that can have virtual functions.
func (m *model) withVFs(name string) {
	m.links[name].Ethernet = &document.EthernetConfig{
		SRIOV: &document.SRIOV{TotalVFs: new(0), DriversAutoprobe: new(true), VFs: []document.VF{}},
	}
}

// setVFs does what the driver of a physical function does. Another number makes all virtual
// functions anew.
func (l *link) setVFs(want document.SRIOV) error {
	if l.Ethernet == nil {
		return fmt.Errorf("%s has no virtual functions", l.Name)
	}
	// A state that was shown before keeps what it has.
	have := copyOf(*l.Ethernet.SRIOV)
	if want.DriversAutoprobe != nil {
		have.DriversAutoprobe = want.DriversAutoprobe
	}
	if want.TotalVFs != nil && *want.TotalVFs != *have.TotalVFs {
		have.TotalVFs, have.VFs = want.TotalVFs, make([]document.VF, *want.TotalVFs)
		for id := range have.VFs {
			have.VFs[id] = document.VF{
				ID: id, MACAddress: "00:00:00:00:00:00", SpoofCheck: new(true), Trust: new(false), MinTxRate: new(0),
				MaxTxRate: new(0), VLANID: new(0), QoS: new(0), VLANProto: document.Protocol8021Q,
			}
		}
	}
	for _, vf := range want.VFs {
		if vf.ID >= len(have.VFs) {
			return fmt.Errorf("%s has no virtual function %d", l.Name, vf.ID)
		}
		if err := json.Unmarshal(textOf(vf), &have.VFs[vf.ID]); err != nil {
			return err
		}
	}
	l.Ethernet = &document.EthernetConfig{SRIOV: &have}
	return nil
}

func copyOf(s document.SRIOV) document.SRIOV {
	copied := document.SRIOV{VFs: []document.VF{}}
	if err := json.Unmarshal(textOf(s), &copied); err != nil {
		panic(err)
	}
	return copied
}

func textOf(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
