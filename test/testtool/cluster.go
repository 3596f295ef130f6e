// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// accountFolder is where Kubernetes mounts a pod's ServiceAccount.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

func resolveCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "resolve NAME|IP",
		Short: "Print the addresses of a name, or the names of an address, one per line",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := within(command.Context(), timeout)
			defer cancel()
			resolver := net.Resolver{PreferGo: true}
			lookUp := resolver.LookupHost
			if _, err := netip.ParseAddr(args[0]); err == nil {
				lookUp = resolver.LookupAddr
			}
			answers, err := lookUp(ctx, args[0])
			if err != nil {
				return fmt.Errorf("resolve %s: %w", args[0], err)
			}
			for _, answer := range answers {
				fmt.Fprintln(command.OutOrStdout(), answer)
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to try")
	return command
}

func apiCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "api [PATH...]",
		Short: "GET paths from the Kubernetes API as a pod does: service address, ServiceAccount token and CA",
		Long: "GET paths from the Kubernetes API as a pod does: service address, ServiceAccount token and CA.\n" +
			"Without paths, /version. {namespace} in a path stands for the pod's own namespace.",
		RunE: func(command *cobra.Command, paths []string) error {
			ctx, cancel := within(command.Context(), timeout)
			defer cancel()
			if len(paths) == 0 {
				paths = []string{"/version"}
			}
			client, err := newAPIClient(accountFolder)
			if err != nil {
				return err
			}
			for _, path := range paths {
				body, err := client.get(ctx, path)
				if err != nil {
					return err
				}
				fmt.Fprintln(command.OutOrStdout(), strings.TrimSpace(body))
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to try")
	return command
}

// apiClient speaks to the API server at the address that the kubelet put into
// the environment.
type apiClient struct {
	client                 http.Client
	base, token, namespace string
}

func newAPIClient(folder string) (*apiClient, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: run this in a pod")
	}
	var files [3]string
	for i, name := range []string{"token", "namespace", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, fmt.Errorf("read ServiceAccount: %w", err)
		}
		files[i] = strings.TrimSpace(string(text))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(files[2])) {
		return nil, errors.New("read ServiceAccount: ca.crt holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &apiClient{
		client: http.Client{Transport: transport},
		base:   "https://" + net.JoinHostPort(host, port), token: files[0], namespace: files[1],
	}, nil
}

func (c *apiClient) get(ctx context.Context, path string) (string, error) {
	path = strings.ReplaceAll(path, "{namespace}", c.namespace)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("get %s: %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
