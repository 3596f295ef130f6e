// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/test/api/apiserver"
)

// Account is a program of the chart, with a ServiceAccount of the same name as its roles.
type Account struct {
	Name string
	// Node is the node of a daemon; "" for a program that runs once.
	Node string
}

// Compare returns the requests of an account that were refused, and the rights that it has by the
// rendered chart and that it made no use of, each once. The right to watch covers the right to
// list, because the server decides whether it streams the list.
func (a Account) Compare(
	objects []*unstructured.Unstructured,
	requests []apiserver.Request,
) (refused, unused []string, err error) {
	granted, err := Rights(objects, a.Name)
	if err != nil {
		return nil, nil, err
	}
	used := map[string]bool{}
	for _, r := range requests {
		if r.User != "system:serviceaccount:"+Namespace+":"+a.Name || r.Node != a.Node {
			continue
		}
		used[r.Right] = true
		if resource, found := strings.CutPrefix(r.Right, "watch "); found {
			used["list "+resource] = true
		}
		if r.Refused && !slices.Contains(refused, r.Right) {
			refused = append(refused, r.Right)
		}
	}
	for _, right := range granted {
		if !used[right] {
			unused = append(unused, right)
		}
	}
	return refused, unused, nil
}

// Rights lists the rights that the roles of a name grant, as in [apiserver.Request].
func Rights(objects []*unstructured.Unstructured, name string) ([]string, error) {
	var all []string
	for _, object := range objects {
		if object.GetName() != name || object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has rules of the same form
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), name, err)
		}
		for _, rule := range role.Rules {
			all = append(all, ofRule(rule)...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the chart has no role %s with rules", name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func ofRule(rule rbacv1.PolicyRule) []string {
	var all []string
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, found := strings.Cut(resource, "/")
				right := strings.TrimSuffix(verb+" "+resource+"."+group, ".")
				if found {
					right += "/" + subresource
				}
				all = append(all, right)
			}
		}
	}
	return all
}
