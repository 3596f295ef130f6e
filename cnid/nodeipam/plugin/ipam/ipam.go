// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam is Alioth's IPAM plugin for CNI. It returns the addresses and routes in its
// configuration (ipamconf.Config) and keeps nothing, because the operator has chosen them
// and the Address objects reserve them. For a configuration without addresses it asks the
// node IPAM API (package plugin). It serves all versions of CNI and all commands.
package ipam

import (
	"encoding/json"
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin"
)

// Main carries out the command in the environment, and ends the process if that fails.
func Main() {
	nothing := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: either(add, plugin.Add), Check: either(check, plugin.Check), Del: either(nothing, plugin.Del),
		GC: either(nothing, plugin.GC), Status: either(nothing, plugin.Status),
	}, version.All, "CNI IPAM plugin "+ipamconf.Type)
}

// either returns the function that carries out a command: with the addresses of the
// configuration, or with addresses of the node IPAM API.
func either(configured, asked func(*skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		var conf struct {
			IPAM struct {
				Type      string            `json:"type"`
				Addresses []json.RawMessage `json:"addresses"`
			} `json:"ipam"`
		}
		if err := json.Unmarshal(args.StdinData, &conf); err != nil || conf.IPAM.Type != ipamconf.Type ||
			len(conf.IPAM.Addresses) > 0 {
			return configured(args)
		}
		return asked(args)
	}
}

func add(args *skel.CmdArgs) error {
	conf, err := read(args.StdinData)
	if err != nil {
		return err
	}
	// The conversion to versions before 0.3.0 keeps one address of each family.
	return types.PrintResult(conf.result(), conf.CNIVersion)
}

// check looks for the addresses in the previous result (CNI 1.1, section "CHECK").
func check(args *skel.CmdArgs) error {
	conf, err := read(args.StdinData)
	if err != nil {
		return err
	}
	var addresses []netip.Prefix
	for _, want := range conf.IPAM.Addresses {
		addresses = append(addresses, want.Address)
	}
	return plugin.Lacking(conf.CNIVersion, conf.PrevResult, addresses)
}

type netConf struct {
	CNIVersion string          `json:"cniVersion"`
	IPAM       ipamconf.Config `json:"ipam"`
	PrevResult json.RawMessage `json:"prevResult"`
}

func read(stdin []byte) (netConf, error) {
	var conf netConf
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return conf, types.NewError(types.ErrDecodingFailure, "decode network configuration", err.Error())
	}
	if conf.IPAM.Type != ipamconf.Type {
		return conf, types.NewError(types.ErrInvalidNetworkConfig, "the type of ipam is not "+ipamconf.Type, "")
	}
	for _, addr := range conf.IPAM.Addresses {
		if !addr.Address.IsValid() {
			return conf, types.NewError(types.ErrInvalidNetworkConfig, "ipam has an empty address", "")
		}
	}
	if conf.CNIVersion == "" {
		conf.CNIVersion = "0.1.0"
	}
	return conf, nil
}

func (c netConf) result() *types100.Result {
	res := &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	for _, addr := range c.IPAM.Addresses {
		res.IPs = append(res.IPs, &types100.IPConfig{Address: plugin.IPNet(addr.Address), Gateway: addr.Gateway.AsSlice()})
	}
	for _, route := range c.IPAM.Routes {
		res.Routes = append(res.Routes, &types.Route{Dst: plugin.IPNet(route.Dst), GW: route.Gateway.AsSlice()})
	}
	return res
}
