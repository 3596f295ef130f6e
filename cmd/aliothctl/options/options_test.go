// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestClientConfig_KubeconfigMissing_RemedyNamed(t *testing.T) {
	dir := t.TempDir()
	socket, config := filepath.Join(dir, "cnid.sock"), filepath.Join(dir, "config")
	const text = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"users": [{"name": "u", "user": {"token": "t"}}]}`
	for _, path := range []string{socket, config} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := filepath.Join(dir, "none")
	if ofPod := (&rest.Config{BearerTokenFile: serviceAccountToken}); !isDaemons(ofPod, socket) || isDaemons(ofPod, none) {
		t.Error("the daemon's pod is not told from others by its socket")
	}
	if got, err := RESTConfig(config, socket); err != nil || got.Host != "https://192.0.2.1" {
		t.Errorf("with a kubeconfig beside the daemon's socket: %v, %v", got, err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", none)
	if _, err := RESTConfig("", socket); !errors.Is(err, ErrNoKubeconfig) {
		t.Errorf("without a kubeconfig: %v", err)
	}
	t.Setenv("KUBECONFIG", none+":"+config)
	if _, err := RESTConfig("", socket); err != nil {
		t.Errorf("with a list of files in KUBECONFIG: %v", err)
	}
	for _, err := range []error{ErrDaemonsPod, ErrNoKubeconfig} {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has several lines", err)
		}
	}
}
