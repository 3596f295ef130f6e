// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package survey collects the facts of a cluster that package preflight judges. Unless it is
// asked to start pods on nodes, it only reads.
package survey

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/helm"
)

// page is the number of objects of one request.
const page = 500

// Reader reads one cluster.
type Reader struct {
	api     kubernetes.Interface
	dynamic dynamic.Interface
}

// New returns a Reader of the cluster of config.
func New(config *rest.Config) (*Reader, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return &Reader{api: api, dynamic: objects}, nil
}

// Cluster collects the facts of the cluster for the Helm release. Unread names objects that the
// user may not read; only a failed connection is an error.
func (r *Reader) Cluster(ctx context.Context, namespace, release string) (preflight.Cluster, error) {
	c := preflight.Cluster{Namespace: namespace, Release: release}
	version, err := r.api.Discovery().ServerVersion()
	if err != nil {
		return c, fmt.Errorf("ask the API server for its version: %w", err)
	}
	c.Version = version.GitVersion
	for _, part := range []struct {
		what string
		read func(context.Context, *preflight.Cluster) error
	}{
		{"the API groups", r.groups},
		{"Nodes", r.nodes},
		{"ServiceCIDRs", r.serviceRanges},
		{"Services", r.services},
		{"EndpointSlices", r.endpoints},
		{"Pods", r.pods},
		{"DaemonSets", r.daemonSets},
		{"Namespaces", r.namespaces},
		{"CustomResourceDefinitions", r.definitions},
		{"admission webhooks", r.webhooks},
	} {
		if err := part.read(ctx, &c); err != nil {
			if ctx.Err() != nil {
				return c, err
			}
			c.Unread = append(c.Unread, quote.Message(fmt.Sprintf("read %s: %v", part.what, err)))
		}
	}
	return c, nil
}

func (r *Reader) groups(_ context.Context, c *preflight.Cluster) error {
	_, lists, err := r.api.Discovery().ServerGroupsAndResources()
	for _, list := range lists {
		for _, resource := range list.APIResources {
			c.Served = append(c.Served, list.GroupVersion+"/"+resource.Name)
		}
	}
	if len(c.Served) > 0 {
		return nil // an aggregated API that does not answer is nothing of Alioth
	}
	return err
}

func (r *Reader) nodes(ctx context.Context, c *preflight.Cluster) error {
	list, err := r.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		c.Nodes = append(c.Nodes, nodeOf(&list.Items[i]))
	}
	return nil
}

func nodeOf(n *corev1.Node) preflight.ClusterNode {
	info := n.Status.NodeInfo
	fact := preflight.ClusterNode{
		Name: n.Name, Kernel: info.KernelVersion, Runtime: info.ContainerRuntimeVersion, OS: info.OperatingSystem,
		Arch: info.Architecture, Labels: n.Labels,
		Ready: slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}),
	}
	for _, address := range n.Status.Addresses {
		ip, err := netip.ParseAddr(address.Address)
		if err != nil {
			continue // a name
		}
		fact.Addresses = append(fact.Addresses, ip.Unmap())
		if address.Type == corev1.NodeInternalIP {
			fact.Internal = append(fact.Internal, ip.Unmap())
		}
	}
	fact.PodCIDRs = ranges(append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...))
	return fact
}

// ranges parses texts of the API server, each once; it skips empty texts.
func ranges(texts []string) (list []netip.Prefix) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && !slices.Contains(list, prefix.Masked()) {
			list = append(list, prefix.Masked())
		}
	}
	return list
}

func (r *Reader) serviceRanges(ctx context.Context, c *preflight.Cluster) error {
	list, err := r.api.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		c.ServiceCIDRs = append(c.ServiceCIDRs, ranges(list.Items[i].Spec.CIDRs)...)
	}
	return nil
}

func (r *Reader) services(ctx context.Context, c *preflight.Cluster) error {
	return pages(func(o metav1.ListOptions) (string, error) {
		list, err := r.api.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			c.Services = append(c.Services, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
		return list.Continue, nil
	})
}

func (r *Reader) endpoints(ctx context.Context, c *preflight.Cluster) error {
	list, err := r.api.DiscoveryV1().
		EndpointSlices(metav1.NamespaceDefault).
		List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return err
	}
	for _, slice := range list.Items {
		for _, port := range slice.Ports {
			for _, endpoint := range slice.Endpoints {
				for _, text := range endpoint.Addresses {
					if ip, err := netip.ParseAddr(text); err == nil && port.Port != nil {
						c.Endpoints = append(c.Endpoints, netip.AddrPortFrom(ip.Unmap(), uint16(*port.Port)))
					}
				}
			}
		}
	}
	return nil
}

func (r *Reader) pods(ctx context.Context, c *preflight.Cluster) error {
	return pages(func(o metav1.ListOptions) (string, error) {
		list, err := r.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			pod := &list.Items[i]
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && !pod.Spec.HostNetwork && !ended {
				c.PodIPs = append(c.PodIPs, ip.Unmap())
			}
		}
		return list.Continue, nil
	})
}

// pages reads all pages of a list.
func pages(read func(metav1.ListOptions) (next string, err error)) error {
	options := metav1.ListOptions{Limit: page}
	for {
		next, err := read(options)
		if err != nil || next == "" {
			return err
		}
		options.Continue = next
	}
}

func (r *Reader) daemonSets(ctx context.Context, c *preflight.Cluster) error {
	list, err := r.api.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		set := preflight.DaemonSet{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}
		for _, container := range list.Items[i].Spec.Template.Spec.Containers {
			set.Images = append(set.Images, container.Image)
		}
		c.DaemonSets = append(c.DaemonSets, set)
	}
	return nil
}

func (r *Reader) namespaces(ctx context.Context, c *preflight.Cluster) error {
	list, err := r.api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		labels := list.Items[i].Labels
		c.Namespaces = append(c.Namespaces, preflight.Namespace{
			Name: list.Items[i].Name, Tenant: labels[v1alpha1.TenantLabel], Enforce: labels["pod-security.kubernetes.io/enforce"],
		})
	}
	return nil
}

// definitions reads the CRDs that the chart has too.
func (r *Reader) definitions(ctx context.Context, c *preflight.Cluster) error {
	names, err := chartCRDs()
	if err != nil {
		return err
	}
	list, err := r.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if slices.Contains(names, list.Items[i].GetName()) {
			c.CRDs = append(c.CRDs, definitionOf(&list.Items[i]))
		}
	}
	return nil
}

func chartCRDs() (names []string, err error) {
	files, err := fs.Glob(helm.CRDs(), "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(helm.CRDs(), file)
		if err != nil {
			return nil, err
		}
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		names = append(names, object.Name)
	}
	return names, nil
}

func definitionOf(object *unstructured.Unstructured) preflight.CRD {
	crd := preflight.CRD{Name: object.GetName()}
	annotations := object.GetAnnotations()
	if release := annotations["meta.helm.sh/release-name"]; release != "" {
		crd.Release = annotations["meta.helm.sh/release-namespace"] + "/" + release
	}
	versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
	for _, version := range versions {
		v, ok := version.(map[string]any)
		if !ok {
			continue
		}
		_, found, _ := unstructured.NestedMap(v, "subresources", "status")
		if name, _, _ := unstructured.NestedString(v, "name"); !found {
			crd.WithoutStatus = append(crd.WithoutStatus, name)
		}
	}
	return crd
}

func (r *Reader) webhooks(ctx context.Context, c *preflight.Cluster) error {
	validating, err := r.api.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	mutating, err := r.api.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, configuration := range validating.Items {
		for _, w := range configuration.Webhooks {
			c.Webhooks = append(c.Webhooks, webhookOf(configuration.Name, w.Name, w.ClientConfig, w.FailurePolicy, w.Rules)...)
		}
	}
	for _, configuration := range mutating.Items {
		for _, w := range configuration.Webhooks {
			c.Webhooks = append(c.Webhooks, webhookOf(configuration.Name, w.Name, w.ClientConfig, w.FailurePolicy, w.Rules)...)
		}
	}
	return nil
}

// webhookOf returns a webhook whose silence prevents pods, or none.
func webhookOf(
	configuration, name string,
	client admissionv1.WebhookClientConfig,
	policy *admissionv1.FailurePolicyType,
	rules []admissionv1.RuleWithOperations,
) []preflight.Webhook {
	if client.Service == nil || policy != nil && *policy == admissionv1.Ignore {
		return nil
	}
	pods := slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool {
		return has(rule.APIGroups, "") && (has(rule.Resources, "pods") || slices.Contains(rule.Resources, "*/*"))
	})
	if !pods {
		return nil
	}
	return []preflight.Webhook{
		{Configuration: configuration, Name: name, Service: client.Service.Namespace + "/" + client.Service.Name},
	}
}

func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
