# The engine. As it stands for a CPU; docker-compose.yml says what differs for a GPU.
FROM python:3.11-slim
ARG EXTRAS=engine
ARG PACKAGES=""
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN if [ -n "$PACKAGES" ]; then \
      apt-get update && apt-get install -y --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; \
    fi
WORKDIR /kvxray
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app app
COPY backend backend
COPY engine engine
COPY kernels kernels
COPY storage storage
# A volume takes over the owner of the folder it is mounted on.
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url "$TORCH_INDEX" ".[$EXTRAS]" \
 && useradd --create-home --uid 10001 kvxray \
 && install -d -o kvxray /models
USER kvxray
ENTRYPOINT ["kvxray"]
