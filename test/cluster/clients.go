// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// clients are the ways in which a lab talks to its API server.
type clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// connect makes the clients from the kubeconfig on disk. It does not wait for
// the API server.
func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read the lab's kubeconfig: %w", err)
	}
	config.QPS = -1 // a test is the only client and wants its answer now
	// The API server is on a link of this machine, behind no proxy.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a dynamic client: %w", err)
	}
	c.clients = &clients{
		config: config, typed: typed, dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery())),
	}
	return nil
}

// Client returns a client with the administrator's rights.
func (c *Cluster) Client() kubernetes.Interface { return c.clients.typed }

// Dynamic returns a client for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface { return c.clients.dynamic }
