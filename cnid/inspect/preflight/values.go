// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/helm"
)

// Values are the values of the chart that checks depend on.
type Values struct {
	APIServer struct {
		Host string `json:"host"`
		Port uint16 `json:"port"`
	} `json:"apiServer"`
	Image          Image          `json:"image"`
	ServiceCIDRs   []netip.Prefix `json:"serviceCIDRs"`
	ShadowCIDRs    []netip.Prefix `json:"shadowCIDRs"`
	TunnelPort     uint16         `json:"tunnelPort"`
	SharedServices []string       `json:"sharedServices"`
	HostLinks      struct {
		VXLANPort uint16 `json:"vxlanPort"`
	} `json:"hostLinks"`
	FlowControl switched `json:"flowControl"`
	DefaultVPC  struct {
		switched
		CIDRs []netip.Prefix `json:"cidrs"`
	} `json:"defaultVPC"`
	MultiNetwork struct {
		switched
		Annotations []string `json:"annotations"`
	} `json:"multiNetwork"`
	NodeNetworkState switched `json:"nodeNetworkState"`
	NodeIPAM         struct {
		switched
		Listen string `json:"listen"`
	} `json:"nodeIPAM"`
	Operator struct {
		Port     uint16 `json:"port"`
		Replicas uint16 `json:"replicas"`
	} `json:"operator"`
	Daemon struct {
		HealthPort   uint16            `json:"healthPort"`
		MetricsPort  uint16            `json:"metricsPort"`
		ProxyHealth  bool              `json:"proxyHealth"`
		PodDevice    string            `json:"podDevice"`
		CNIConfDir   string            `json:"cniConfDir"`
		CNIBinDir    string            `json:"cniBinDir"`
		CgroupRoot   string            `json:"cgroupRoot"`
		NodeSelector map[string]string `json:"nodeSelector"`
	} `json:"daemon"`
}

// Image is the place of the image of Alioth for nodes.
type Image struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	PullPolicy string `json:"pullPolicy"`
}

// Reference returns the full reference of the image. As in the chart, an empty tag is the
// version.
func (i Image) Reference() string {
	return i.Repository + ":" + cmp.Or(i.Tag, version.Number)
}

// switched is an area of the chart that can be off.
type switched struct {
	Enabled bool `json:"enabled"`
}

// ParseValues returns the values of an installation: the values of the chart, changed by files in
// their order, as Helm does.
func ParseValues(files ...[]byte) (Values, error) {
	merged := map[string]any{}
	for _, file := range append([][]byte{helm.Values}, files...) {
		var tree map[string]any
		if err := yaml.Unmarshal(file, &tree); err != nil {
			return Values{}, fmt.Errorf("read the values of the chart: %w", err)
		}
		merge(merged, tree)
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return Values{}, fmt.Errorf("write the values of the chart: %w", err)
	}
	var v Values
	if err := yaml.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("read the values of the chart: %w", err)
	}
	return v, nil
}

// merge changes a tree of values by another one. A null removes a value.
func merge(into, from map[string]any) {
	for key, value := range from {
		tree, isTree := value.(map[string]any)
		have, wasTree := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isTree && wasTree:
			merge(have, tree)
		default:
			into[key] = value
		}
	}
}

// port is a port of nodes that a value of the chart names.
type port struct {
	protocol string
	number   uint16
	value    string
}

// ports returns the ports of each node that Alioth listens at.
func (v Values) ports() []port {
	all := []port{
		{"udp", v.TunnelPort, "tunnelPort"},
		{"tcp", v.Daemon.HealthPort, "daemon.healthPort"},
		{"tcp", v.Daemon.MetricsPort, "daemon.metricsPort"},
	}
	if v.MultiNetwork.Enabled {
		all = append(all, port{"udp", v.HostLinks.VXLANPort, "hostLinks.vxlanPort"})
	}
	for i := range 2 * v.Operator.Replicas {
		all = append(all, port{"tcp", v.Operator.Port + i, "operator.port"})
	}
	if v.Daemon.ProxyHealth {
		all = append(all, port{"tcp", proxyHealthPort, "daemon.proxyHealth"})
	}
	if listen, err := splitPort(v.NodeIPAM.Listen); v.NodeIPAM.Enabled && err == nil {
		all = append(all, port{"tcp", listen, "nodeIPAM.listen"})
	}
	return all
}

// proxyHealthPort is the port of kube-proxy's health pages.
const proxyHealthPort = 10256

// splitPort returns the port of host:port.
func splitPort(address string) (uint16, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return uint16(number), err
}
