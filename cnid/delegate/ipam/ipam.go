// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam is Alioth's IPAM plugin for CNI. It returns the addresses and routes in its
// configuration (ipamconf.Config) and keeps nothing, because the operator has chosen them
// and the Address objects reserve them. It serves all versions of CNI and all commands.
package ipam

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/alioth-net/alioth/api/ipamconf"
)

// Main carries out the command in the environment, and ends the process if that fails.
func Main() {
	nothing := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Check: check, Del: nothing, GC: nothing, Status: nothing},
		version.All, "CNI IPAM plugin "+ipamconf.Type)
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
	prev, err := create.Create(conf.CNIVersion, conf.PrevResult)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "decode prevResult", err.Error())
	}
	res, err := types100.NewResultFromResult(prev)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "convert prevResult", err.Error())
	}
	known := map[string]bool{}
	for _, ip := range res.IPs {
		known[ip.Address.String()] = true
	}
	for _, want := range conf.IPAM.Addresses {
		if !known[want.Address.String()] {
			return types.NewError(types.ErrInternal, fmt.Sprintf("prevResult lacks the address %s", want.Address), "")
		}
	}
	return nil
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
	if conf.IPAM.Type != ipamconf.Type || len(conf.IPAM.Addresses) == 0 {
		return conf, types.NewError(types.ErrInvalidNetworkConfig,
			"ipam has no addresses; "+ipamconf.Type+" is for configurations that Alioth writes, use another IPAM plugin in your own", "")
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
		res.IPs = append(res.IPs, &types100.IPConfig{Address: ipNet(addr.Address), Gateway: addr.Gateway.AsSlice()})
	}
	for _, route := range c.IPAM.Routes {
		res.Routes = append(res.Routes, &types.Route{Dst: ipNet(route.Dst), GW: route.Gateway.AsSlice()})
	}
	return res
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
