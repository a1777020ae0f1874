# The backend and the page it serves; no torch.
FROM python:3.11-slim
WORKDIR /kvxray
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app app
COPY backend backend
COPY engine engine
COPY kernels kernels
COPY storage storage
RUN pip install --no-cache-dir --constraint constraints.txt '.[dashboard,postgres]' \
 && useradd --create-home --uid 10001 kvxray
USER kvxray
ENTRYPOINT ["kvxray"]
