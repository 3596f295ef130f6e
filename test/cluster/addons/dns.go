// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addons has the parts of a lab beside Kubernetes and Alioth: the cluster's DNS, and
// the plugins of the CNI project with a network that they make.
package addons

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/netip"
	"text/template"
)

//go:embed coredns.yaml
var dnsManifest string

// DNS describes the cluster's DNS.
type DNS struct {
	// Image is CoreDNS's image, present on every node.
	Image string
	// VIPs are the addresses of the Service kube-dns, primary family first.
	VIPs []string
	// ServiceRanges are the ranges of ClusterIPs. Only addresses in them have names.
	ServiceRanges []netip.Prefix
	// APIServer is the address that CoreDNS reaches the API server at, "" for the Service
	// "kubernetes" as any other pod.
	APIServer string
	// APIServerPort goes with APIServer.
	APIServerPort int
}

// Manifest returns the objects to apply as YAML documents.
func (d DNS) Manifest() ([]byte, error) {
	t, err := template.New("coredns").Parse(dnsManifest)
	if err != nil {
		return nil, fmt.Errorf("parse the manifest of the cluster's DNS: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, d); err != nil {
		return nil, fmt.Errorf("write the manifest of the cluster's DNS: %w", err)
	}
	return out.Bytes(), nil
}
