// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/alioth-net/alioth/cnid/cluster/report"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
)

// Requests per second to the API server. A node needs few, except to release the
// addresses of many pods at once.
const (
	apiQPS   = 50
	apiBurst = 100
)

// newClient returns a client that has sent no request yet.
func newClient(config *rest.Config) (*kube.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return kube.New(config, scheme)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(kinds.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	return scheme, nil
}

// apiConfig returns address and credentials of the API server, and the limits of requests.
func apiConfig(cfg Config) (*rest.Config, error) {
	config, err := restConfig(cfg)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = apiQPS, apiBurst
	config.UserAgent = report.Component
	return config, nil
}

// restConfig returns the kubeconfig's or the pod's, with host and port of the command
// line if it has them: the cluster's own address of the API server is a Service, which
// this node does not serve yet.
func restConfig(cfg Config) (*rest.Config, error) {
	if cfg.Kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		if address := cfg.hostPort(); address != "" {
			config.Host = (&url.URL{Scheme: "https", Host: address}).String()
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("read the pod's API credentials (outside of a pod, give --kubeconfig): %w", err)
	}
	if address := cfg.hostPort(); address != "" {
		config.Host = (&url.URL{Scheme: "https", Host: address}).String()
	}
	return config, nil
}

// FromEnvironment takes host and port of the API server from the variables that a pod
// has, if the command line lacks them. The node must always be able to reach this
// address, so no pod may get it.
func (c *Config) FromEnvironment() {
	if c.APIServerHost != "" || c.Kubeconfig != "" {
		return
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return
	}
	if number, err := strconv.Atoi(port); err == nil {
		c.APIServerHost, c.APIServerPort = host, number
	}
}
