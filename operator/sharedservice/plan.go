// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedservice

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
)

// decision is the content of the status.
type decision struct {
	clusterIPs []string
	verdict.Verdict
}

func decide(tx store.ReadTx, namespace, name string) decision {
	service := store.GetService(tx, namespace, name)
	refuse := func(reason, format string, args ...any) decision {
		return decision{
			Verdict: verdict.Refuse(
				reason,
				fmt.Sprintf("Service %s/%s ", quote.Name(namespace), quote.Name(name))+fmt.Sprintf(format, args...),
			),
		}
	}
	switch {
	case service == nil:
		return refuse(v1alpha1.ServiceNotFoundReason, "does not exist")
	case service.Network != "":
		return refuse(
			v1alpha1.ServiceOfNetworkReason,
			"belongs to Network %s; only Services of the default VPC can be shared",
			service.Network,
		)
	case service.OtherProxy:
		return refuse(
			v1alpha1.ServiceNotServedReason,
			"has the label service.kubernetes.io/service-proxy-name, which leaves it to another proxy; remove the label",
		)
	case len(service.ClusterIPs) == 0:
		return refuse(v1alpha1.ServiceNotServedReason, "has no ClusterIP; a headless one can't be shared")
	case !slices.ContainsFunc(service.Ports, served):
		return refuse(v1alpha1.ServiceNotServedReason, "has no port of TCP or UDP")
	}
	d := decision{Verdict: verdict.Use("pods of every VPC reach the Service at its ClusterIPs")}
	for _, ip := range service.ClusterIPs {
		d.clusterIPs = append(d.clusterIPs, ip.String())
	}
	return d
}

func served(port store.ServicePort) bool { return port.Protocol == "TCP" || port.Protocol == "UDP" }
