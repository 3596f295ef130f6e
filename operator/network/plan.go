// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// usersNamed is how many users of a Network a message names.
const usersNamed = 3

// longestName is the longest value of a label. The API server refuses longer names of new
// Networks.
const longestName = 63

// decision is the status of one Network, and whether its deletion may proceed.
type decision struct {
	tenant string
	// unused is true once a Network being deleted may lose its finalizer.
	unused bool
	verdict.Verdict
	// conflict names the older Network of the tenant with the same name; ""
	// without one.
	conflict string
	// unrestricted are namespaces of the tenant whose pods may control their nodes.
	unrestricted []string
}

// decide plans for one Network of a served type.
func decide(tx store.ReadTx, net *store.Network) decision {
	d := decision{tenant: net.Tenant, conflict: conflict(tx, net), unrestricted: unrestricted(tx, net.Tenant)}
	if net.Deleting {
		users := users(tx, net)
		if len(users) == 0 {
			d.unused, d.Verdict = true, verdict.Deleting("nothing uses it")
			return d
		}
		d.Verdict = verdict.Deleting(fmt.Sprintf("used by %d object(s): %s", len(users), some(users)))
		return d
	}
	if len(net.Name) > longestName {
		d.Verdict = verdict.Refuse(v1alpha1.NameTooLongReason, fmt.Sprintf(
			"the name has %d characters, and the label in which pods name a Network has %d at most: create a Network with a shorter name",
			len(net.Name),
			longestName,
		))
		return d
	}
	if cause := tenancy.CheckNetwork(tx, net); cause != nil {
		d.Verdict = verdict.Refuse(cause.Reason, cause.Message)
		return d
	}
	d.Verdict = verdict.Use(fmt.Sprintf("pods use VPC %q", net.VPC))
	if left := leftBehind(tx, net); len(left) > 0 {
		d.Message += fmt.Sprintf("; %d pod(s) keep another VPC: %s; recreate them to move them", len(left), some(left))
	}
	return d
}

// unrestricted lists the namespaces of a tenant without Pod Security. It leaves out namespaces
// without a tenant label, because these are trusted with the nodes.
func unrestricted(tx store.ReadTx, tenant string) []string {
	if strings.HasPrefix(tenant, v1alpha1.NamespaceTenantPrefix) {
		return nil
	}
	var all []string
	for _, ns := range store.NamespacesByTenant(tx, tenant) {
		if !ns.Restricted {
			all = append(all, ns.Name)
		}
	}
	return all
}

// conflict finds the older Network of the same name and tenant. Both serve their own namespaces.
// The tenant's namespaces without a Network of that name use the older.
func conflict(tx store.ReadTx, net *store.Network) string {
	for _, other := range store.NetworkByTenantName(tx, net.Tenant, net.Name) {
		if other.UID == net.UID {
			return ""
		}
		if tenancy.Served(other.Type) {
			return other.Namespace + "/" + other.Name
		}
	}
	return ""
}

// users lists the objects that use a Network: pods with addresses through it, and
// Services with its label, by kind and name.
func users(tx store.ReadTx, net *store.Network) []string {
	all := podUsers(tx, net)
	for _, ns := range store.NamespacesByTenant(tx, net.Tenant) {
		for _, service := range store.ServicesByNetwork(tx, ns.Name, net.Name) {
			if means(tx, net, ns.Name) && !service.Deleting {
				all = append(all, fmt.Sprintf("Service %s/%s", service.Namespace, service.Name))
			}
		}
	}
	return all
}

// podsNaming lists the pods of the tenant whose label may refer to the Network.
func podsNaming(tx store.ReadTx, net *store.Network) []*store.Pod {
	pods := store.PodsByNetwork(tx, net.Tenant, net.Name)
	if net.Name == arktosv1.DefaultNetwork {
		pods = append(pods, store.PodsByNetwork(tx, net.Tenant, "")...)
	}
	return pods
}

func podUsers(tx store.ReadTx, net *store.Network) []string {
	var all []string
	for _, pod := range podsNaming(tx, net) {
		if !pod.Terminal && attached(tx, pod, net) {
			all = append(all, fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name))
		}
	}
	return all
}

// leftBehind lists pods with addresses through the Network from a VPC that it named
// before: a running pod keeps its VPC.
func leftBehind(tx store.ReadTx, net *store.Network) []string {
	var all []string
	for _, pod := range podsNaming(tx, net) {
		if vpc := elsewhere(tx, pod, net); vpc != "" && !pod.Terminal {
			all = append(all, fmt.Sprintf("Pod %s/%s (VPC %s)", pod.Namespace, pod.Name, vpc))
		}
	}
	return all
}

// elsewhere returns the VPC that a pod got through the Network, or "" if it is the VPC that the
// Network names.
func elsewhere(tx store.ReadTx, pod *store.Pod, net *store.Network) string {
	if written := writtenElsewhere(pod, net); written != nil && allocation.Confirms(tx, pod, *written) {
		return written.VPC
	}
	return ""
}

// writtenElsewhere returns the attachment of the pod's allocation status that came through the Network
// and is in another VPC than the Network names, or nil. Nothing confirms it.
func writtenElsewhere(pod *store.Pod, net *store.Network) *netif.Interface {
	for _, attachment := range allocation.Status(pod) {
		if through(attachment, net) && attachment.VPC != net.VPC {
			return &attachment
		}
	}
	return nil
}

// attached reports whether the pod holds addresses that it got through the Network.
func attached(tx store.ReadTx, pod *store.Pod, net *store.Network) bool {
	return slices.ContainsFunc(allocation.Status(pod), func(attachment netif.Interface) bool {
		return through(attachment, net) && allocation.Confirms(tx, pod, attachment)
	})
}

func through(attachment netif.Interface, net *store.Network) bool {
	return attachment.Network == net.Namespace+"/"+net.Name
}

// means reports whether the Network's name refers to this one in a namespace.
func means(tx store.ReadTx, net *store.Network, namespace string) bool {
	found := tenancy.Find(tx, net.Tenant, namespace, net.Name)
	return found != nil && found.UID == net.UID
}

func some(names []string) string {
	if len(names) > usersNamed {
		return strings.Join(names[:usersNamed], ", ") + ", and others"
	}
	return strings.Join(names, ", ")
}
