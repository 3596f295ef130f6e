// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/version"
)

// versionWithin is how long the API server may take to tell its version.
const versionWithin = 5 * time.Second

// checkServer returns an error if the API server is older than Alioth needs. It accepts an API
// server that does not report its version: the following requests show whether the server replies.
func checkServer(ctx context.Context, config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("prepare the request for the API server's version: %w", err)
	}
	raw, err := client.RESTClient().Get().AbsPath("/version").Timeout(versionWithin).DoRaw(ctx)
	var info apiversion.Info
	if err != nil || json.Unmarshal(raw, &info) != nil {
		return nil //nolint:nilerr // see above
	}
	return version.CheckKubernetes(info.GitVersion)
}
