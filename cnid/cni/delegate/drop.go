// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// DropRoutes removes routes in the main table from the kept result, so that CHECK and DEL do not
// name missing routes. It returns the result. A route of the result without a gateway has the
// gateway of an address.
func (d *Delegates) DropRoutes(containerID, ifName string, dropped []netif.Route) (*ifdriver.Result, error) {
	k, err := d.Get(containerID, ifName)
	if err != nil {
		return nil, err
	}
	result, err := k.Result()
	if err != nil {
		return nil, err
	}
	raw, err := withoutRoutes(k.RawResult, func(route ifdriver.ResultRoute) bool {
		route.Gateway = result.GatewayOf(route)
		return slices.Contains(dropped, netif.Route{Dst: route.Dst, Gateway: route.Gateway}) ||
			slices.Contains(dropped, netif.Route{Dst: route.Dst})
	})
	if err != nil {
		return nil, fmt.Errorf("remove routes from the result of a delegated attachment: %w", err)
	}
	k.RawResult = raw
	if err := d.keep(k); err != nil {
		return nil, err
	}
	return k.Result()
}

// rawResult is the part of a result that has routes: the result itself, or before CNI 0.3.0 its
// part about a family.
type rawResult map[string]json.RawMessage

// rawRoute is a route of a result.
type rawRoute struct {
	Dst   netip.Prefix `json:"dst"`
	GW    netip.Addr   `json:"gw"`
	Table int          `json:"table"`
}

// withoutRoutes returns the text of a result without some of its routes. All else stays as
// it is.
func withoutRoutes(text json.RawMessage, dropped func(ifdriver.ResultRoute) bool) (json.RawMessage, error) {
	var result rawResult
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	for _, family := range []string{"ip4", "ip6"} {
		part, ok := result[family]
		if !ok || string(part) == "null" {
			continue
		}
		var err error
		if result[family], err = withoutRoutes(part, dropped); err != nil {
			return nil, err
		}
	}
	var routes []json.RawMessage
	if raw, ok := result["routes"]; ok {
		if err := json.Unmarshal(raw, &routes); err != nil {
			return nil, err
		}
	}
	left, err := without(routes, dropped)
	if err != nil {
		return nil, err
	}
	if delete(result, "routes"); len(left) > 0 {
		if result["routes"], err = json.Marshal(left); err != nil {
			return nil, err
		}
	}
	return json.Marshal(result)
}

// without returns the routes of a list that are not dropped.
func without(routes []json.RawMessage, dropped func(ifdriver.ResultRoute) bool) (left []json.RawMessage, err error) {
	for _, raw := range routes {
		var route rawRoute
		if err := json.Unmarshal(raw, &route); err != nil {
			return nil, err
		}
		inMain := route.Table == 0 || route.Table == unix.RT_TABLE_MAIN
		if !inMain || !dropped(ifdriver.ResultRoute{Dst: route.Dst.Masked(), Gateway: route.GW.Unmap()}) {
			left = append(left, raw)
		}
	}
	return left, nil
}
